package redistest

import (
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a network between clients and a server that can be made to fail, and that counts what clients send. All its
// methods are safe for concurrent use and change what happens to bytes that arrive from then on.
type Proxy struct {
	Addr string

	upstream string
	listener net.Listener
	closed   chan struct{}  // closed when the test ends: ends delays
	pipes    sync.WaitGroup // the accept loop and every pipe; joined when the test ends

	dropUp, dropDown atomic.Bool
	delay            atomic.Int64 // ns
	kills            atomic.Int32 // replies that are still to be killed

	mu         sync.Mutex // guards what follows; never held across I/O
	conns      map[net.Conn]struct{}
	commands   map[string]int
	roundTrips int
	made       int // connections
	silenced   int // the first so many of them
	distance   Distance
}

// NewProxy starts a proxy for the server at upstream; it ends with t.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	p := &Proxy{
		Addr: l.Addr().String(), upstream: upstream, listener: l,
		closed: make(chan struct{}), conns: map[net.Conn]struct{}{}, commands: map[string]int{},
	}
	p.pipes.Add(1)
	go p.accept()
	t.Cleanup(func() {
		close(p.closed)
		_ = l.Close()
		p.CutAll()
		p.pipes.Wait()
	})
	return p
}

// DropUp says whether requests are swallowed; their connections stay.
func (p *Proxy) DropUp(drop bool) { p.dropUp.Store(drop) }

// DropDown says whether replies are swallowed: the server does what it is asked, and nobody hears of it.
func (p *Proxy) DropDown(drop bool) { p.dropDown.Store(drop) }

// DelayReplies holds each burst of replies back for d.
func (p *Proxy) DelayReplies(d time.Duration) { p.delay.Store(int64(d)) }

// KillNextReply cuts the connection of the next reply instead of passing it on.
func (p *Proxy) KillNextReply() { p.kills.Add(1) }

// CutAll cuts every connection; new ones can be made.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// SilenceAll lets every connection of now die without a word, as a NAT that forgets it does: what is sent over one gets
// nowhere, and nobody is told. New ones work.
func (p *Proxy) SilenceAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silenced = p.made
}

// silences reports whether the n-th connection has died.
func (p *Proxy) silences(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return n <= p.silenced
}

// Commands returns how many commands of each name, in upper case, clients have sent.
func (p *Proxy) Commands() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.commands)
}

// RoundTrips returns how often clients have sent something after a reply, or on a new connection.
func (p *Proxy) RoundTrips() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roundTrips
}

// Reset sets the counters to zero.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.commands)
	p.roundTrips = 0
}

// accept ends when the listener is closed.
func (p *Proxy) accept() {
	defer p.pipes.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.made++
		l := &link{proxy: p, client: client, server: server, number: p.made}
		l.answered.Store(true)
		if d := p.distance; d.RoundTrip > 0 || d.Jitter > 0 {
			l.client = newLagging(client, d.RoundTrip/2, d.Jitter, 0)
			l.server = newLagging(server, d.RoundTrip/2, d.Jitter, time.Duration(d.Opening)*d.RoundTrip)
		}
		p.conns[l.client], p.conns[l.server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		select {
		case <-p.closed: // the cut at the end of the test may have missed these two
			l.close()
		default:
		}
		p.pipes.Add(2)
		go l.up()
		go l.down()
	}
}

// link is one connection through the proxy; each of its two pipes ends when either end is closed.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	number         int         // from 1
	answered       atomic.Bool // something was passed to the client since it sent last
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.conns, l.client)
	delete(l.proxy.conns, l.server)
}

// up passes requests on, and counts them even if they are swallowed.
func (l *link) up() {
	defer l.proxy.pipes.Done()
	defer l.close()
	var requests parser
	buf := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buf)
		if n > 0 {
			l.proxy.count(requests.feed(buf[:n]), l.answered.Swap(false))
			if !l.proxy.dropUp.Load() && !l.proxy.silences(l.number) {
				if _, err := l.server.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) count(names []string, roundTrip bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		p.commands[name]++
	}
	if roundTrip {
		p.roundTrips++
	}
}

// down passes replies on.
func (l *link) down() {
	defer l.proxy.pipes.Done()
	defer l.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		if n > 0 && !l.reply(buf[:n]) {
			return
		}
		if err != nil {
			return
		}
	}
}

// reply passes one burst of replies on, unless a fault says otherwise; false if the connection is to be cut.
func (l *link) reply(b []byte) bool {
	p := l.proxy
	if p.kills.Load() > 0 && p.kills.Add(-1) >= 0 {
		return false
	}
	if d := time.Duration(p.delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-p.closed:
			return false
		}
	}
	if p.dropDown.Load() || p.silences(l.number) {
		return true
	}
	l.answered.Store(true) // before the write: the client may be quick
	_, err := l.client.Write(b)
	return err == nil
}

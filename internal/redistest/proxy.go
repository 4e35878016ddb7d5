package redistest

import (
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/faultpipe"
)

// Proxy is a network between clients and a server. It can be made to fail, and
// it counts the commands of clients. Its methods are safe for concurrent use. A
// change applies to bytes that arrive from then on.
type Proxy struct {
	Addr string

	upstream string
	pipe     *faultpipe.Pipe // closed when the test ends

	dropUp, dropDown atomic.Bool
	delay            atomic.Int64 // ns
	kills            atomic.Int32 // number of replies that are still to be killed

	mu         sync.Mutex // guards the fields below; never held across I/O
	commands   map[string]int
	roundTrips int
	made       int // connections
	silenced   int // number of the first connections that have died
	distance   Distance
	replica    string // for those who subscribe; "" for none
}

// NewProxy starts a proxy for the server at upstream. The proxy ends with t.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	pipe, err := faultpipe.New(t.Context())
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	p := &Proxy{Addr: pipe.Addr, pipe: pipe, upstream: upstream, commands: map[string]int{}}
	t.Cleanup(pipe.Close)
	pipe.Serve(p.open)
	return p
}

// DropUp sets whether requests are swallowed. Their connections stay.
func (p *Proxy) DropUp(drop bool) { p.dropUp.Store(drop) }

// DropDown sets whether replies are swallowed. The server still handles its
// requests, but clients hear nothing.
func (p *Proxy) DropDown(drop bool) { p.dropDown.Store(drop) }

// DelayReplies holds each burst of replies back for d.
func (p *Proxy) DelayReplies(d time.Duration) { p.delay.Store(int64(d)) }

// KillNextReply cuts the connection of the next reply instead of passing it on.
func (p *Proxy) KillNextReply() { p.kills.Add(1) }

// CutAll cuts every connection. New connections can be made.
func (p *Proxy) CutAll() { p.pipe.Cut(nil) }

// SilenceAll lets every present connection die without a sign, as a NAT does
// that forgets it. Bytes sent over it are lost, and neither end gets an error.
// New connections work.
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

// Commands returns how many commands of each name, in upper case, clients have
// sent.
func (p *Proxy) Commands() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.commands)
}

// RoundTrips returns how often clients have sent something after a reply, or on
// a new connection.
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

// open connects an accepted client to the server.
func (p *Proxy) open(client net.Conn) (faultpipe.Link, error) {
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	l := &link{proxy: p, client: client, server: server, number: p.made}
	l.answered.Store(true)
	if p.replica != "" {
		l.server = &splitting{Conn: server, replica: p.replica}
	}
	if d := p.distance; d.RoundTrip > 0 || d.Jitter > 0 {
		l.client = newLagging(client, d.RoundTrip/2, d.Jitter, 0)
		l.server = newLagging(l.server, d.RoundTrip/2, d.Jitter, time.Duration(d.Opening)*d.RoundTrip)
	}
	return l, nil
}

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	number         int         // from 1
	requests       parser      // Up's own
	answered       atomic.Bool // bytes were passed to the client since its latest request
}

func (l *link) Ends() (client, server net.Conn) { return l.client, l.server }

// Up passes requests on, and counts them even if they are swallowed.
func (l *link) Up(b []byte) bool {
	p := l.proxy
	p.count(l.requests.feed(b), l.answered.Swap(false))
	if p.dropUp.Load() || p.silences(l.number) {
		return true
	}
	_, err := l.server.Write(b)
	return err == nil
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

// Down passes one burst of replies on, unless a fault prevents that.
func (l *link) Down(b []byte) bool {
	p := l.proxy
	if p.kills.Load() > 0 && p.kills.Add(-1) >= 0 {
		return false
	}
	if d := time.Duration(p.delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-p.pipe.Closed():
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

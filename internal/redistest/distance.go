package redistest

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Distance describes the network between a server and its clients.
type Distance struct {
	RoundTrip time.Duration
	Jitter    time.Duration // the max extra time of a burst, at random, in each direction
	Opening   int           // round trips before the first request arrives: 1 for TCP, 2 more for TLS
}

// Far sets the distance of the server for new connections. Bursts stay in order
// and do not slow down later bursts, as on a long line.
func (p *Proxy) Far(d Distance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.distance = d
}

// Dial connects to a server at this distance, without a proxy. It fits the
// Dialer of go-redis's options.
func (d Distance) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.Over(new(net.Dialer).DialContext)(ctx, network, addr)
}

// Over is Dial with the connections of another Dialer.
func (d Distance) Over(dial Dialer) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		select {
		case <-time.After(time.Duration(d.Opening) * d.RoundTrip):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return newLagging(conn, d.RoundTrip, d.Jitter, 0), nil
	}
}

// Dialer is the type of the Dialer in go-redis's options.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// lagging is a connection whose writes arrive later.
type lagging struct {
	net.Conn

	lag    time.Duration
	jitter time.Duration
	done   chan struct{} // closed by Close: ends the goroutine

	mu     sync.Mutex // guards the fields below; never held across I/O
	wake   chan struct{}
	bursts []burst
	last   time.Time // when the latest burst is due
	once   sync.Once
}

type burst struct {
	due   time.Time
	bytes []byte
}

// newLagging delays writes to c by lag, and the first burst by opening in
// addition.
func newLagging(c net.Conn, lag, jitter, opening time.Duration) *lagging {
	l := &lagging{
		Conn: c, lag: lag, jitter: jitter, done: make(chan struct{}), wake: make(chan struct{}, 1),
		last: time.Now().Add(opening + lag),
	}
	go l.pass() // ends with Close, or when the other end is gone
	return l
}

// Write takes b and returns at once.
func (l *lagging) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := time.Now().Add(l.lag)
	if l.jitter > 0 {
		due = due.Add(rand.N(l.jitter))
	}
	if due.After(l.last) {
		l.last = due
	}
	l.bursts = append(l.bursts, burst{l.last, append([]byte(nil), b...)})
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return len(b), nil
}

// Close closes the connection. Bytes that have not arrived are lost.
func (l *lagging) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Conn.Close()
}

func (l *lagging) pass() {
	for {
		l.mu.Lock()
		var next burst
		if len(l.bursts) > 0 {
			next, l.bursts = l.bursts[0], l.bursts[1:]
		}
		l.mu.Unlock()
		if next.bytes == nil {
			select {
			case <-l.wake:
			case <-l.done:
				return
			}
			continue
		}
		select {
		case <-time.After(time.Until(next.due)):
		case <-l.done:
			return
		}
		if _, err := l.Conn.Write(next.bytes); err != nil {
			return
		}
	}
}

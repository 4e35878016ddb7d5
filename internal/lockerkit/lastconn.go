package lockerkit

import (
	"net"
	"sync"
	"time"
)

// LastConn keeps one connection open, the last that it dialed. The client of
// ZooKeeper needs that: it leaves the connection open on which a server says
// that a session has expired, and after its Close it waits long for a server
// that does not answer.
//
// The methods are safe for concurrent use.
type LastConn struct {
	By func(network, addr string, limit time.Duration) (net.Conn, error) // dials

	mu     sync.Mutex // guards the fields below
	last   net.Conn   // nil before the first
	closed bool
}

// Dial closes the last connection and dials another. After Close its error is
// net.ErrClosed.
func (l *LastConn) Dial(network, addr string, limit time.Duration) (net.Conn, error) {
	if !l.replace(nil, false) {
		return nil, net.ErrClosed
	}
	c, err := l.By(network, addr, limit)
	if err != nil {
		return nil, err
	}
	if !l.replace(c, false) {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close closes the last connection. A Dial that goes on closes its own.
func (l *LastConn) Close() { l.replace(nil, true) }

// replace closes the last connection and puts c in its place, unless l is
// closed.
func (l *LastConn) replace(c net.Conn, closing bool) (ok bool) {
	l.mu.Lock()
	last := l.last
	if ok = !l.closed; ok {
		l.last, l.closed = c, closing
	}
	l.mu.Unlock()
	if ok && last != nil {
		_ = last.Close() // the client may have closed it before
	}
	return ok
}

package redistest

import (
	"net"
	"sync"
	"time"
)

// buffered is a connection over a pipe whose writes do not wait for the reader,
// as on a socket. Without it a long pipeline would never end. The server would
// answer its start while the client still writes, and neither would read.
type buffered struct {
	net.Conn

	wake chan struct{} // capacity 1: there is more to pass on, or the connection was closed

	mu     sync.Mutex // guards the fields below; never held across I/O
	out    []byte
	closed bool
}

func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c, wake: make(chan struct{}, 1)}
	go b.pass() // ends when the connection is closed at either end
	return b
}

// Write never blocks, so it needs no deadline either.
func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, net.ErrClosed
	}
	b.out = append(b.out, p...)
	b.poke()
	return len(p), nil
}

// SetDeadline sets the deadline of reads.
func (b *buffered) SetDeadline(t time.Time) error { return b.SetReadDeadline(t) }

// SetWriteDeadline does nothing.
func (b *buffered) SetWriteDeadline(time.Time) error { return nil }

// Close closes the connection. Bytes that were not passed on yet are lost.
func (b *buffered) Close() error {
	b.mu.Lock()
	b.closed = true
	b.poke()
	b.mu.Unlock()
	return b.Conn.Close()
}

func (b *buffered) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *buffered) pass() {
	for range b.wake {
		b.mu.Lock()
		out, closed := b.out, b.closed
		b.out = nil
		b.mu.Unlock()
		if closed {
			return
		}
		if _, err := b.Conn.Write(out); err != nil {
			_ = b.Close()
			return
		}
	}
}

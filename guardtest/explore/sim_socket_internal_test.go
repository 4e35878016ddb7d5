package explore

import (
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// socket is the end of a connection that a process has. A process that has died
// or stands still does not go on from a Read.
type socket struct {
	l    *link
	wake chan struct{} // capacity 1: what Read waits for

	mu       sync.Mutex // guards the fields below; never held across I/O
	in       []byte     // for Read
	out      []byte     // the start of a command
	eof      bool       // the other end has closed the connection
	closed   bool       // this end has
	deadline time.Time  // of Read; zero for none
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is there already
	}
}

// Read waits for bytes, the end of the connection or the deadline.
func (c *socket) Read(b []byte) (int, error) {
	defer c.l.p.freeze()
	for {
		n, err, left := c.take(b)
		if n > 0 || err != nil {
			return n, err
		}
		timer := time.NewTimer(limits.Apart(left))
		select {
		case <-c.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take reads what is there. left is the time until the deadline.
func (c *socket) take(b []byte) (n int, err error, left time.Duration) { //nolint:revive,staticcheck // in that order
	c.mu.Lock()
	defer c.mu.Unlock()
	left = time.Hour
	if !c.deadline.IsZero() {
		left = time.Until(c.deadline)
	}
	switch n = copy(b, c.in); {
	case c.closed:
		return 0, net.ErrClosed, 0
	case n > 0:
		c.in = c.in[n:]
		return n, nil, 0
	case c.eof:
		return 0, io.EOF, 0
	case left <= 0:
		return 0, os.ErrDeadlineExceeded, 0
	}
	return 0, nil, left
}

// Write sends commands, and never waits.
func (c *socket) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.eof:
		return 0, syscall.EPIPE
	}
	c.out = append(c.out, b...)
	for {
		cmd, left, ok := parseCommand(c.out)
		if !ok {
			return len(b), nil
		}
		c.out = left
		c.l.send(cmd)
	}
}

// Close ends the connection at this end. Requests that were sent arrive all the
// same.
func (c *socket) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	poke(c.wake)
	poke(c.l.more)
	return nil
}

func (c *socket) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// hand gives bytes to Read.
func (c *socket) hand(text string) {
	c.mu.Lock()
	c.in = append(c.in, text...)
	c.mu.Unlock()
	poke(c.wake)
}

// end is what Read finds behind all bytes.
func (c *socket) end() {
	c.mu.Lock()
	c.eof = true
	c.mu.Unlock()
	poke(c.wake)
}

func (c *socket) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *socket) SetWriteDeadline(time.Time) error { return nil }

func (c *socket) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	poke(c.wake)
	return nil
}

func (c *socket) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (c *socket) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// parseCommand reads the first command of b. ok is false if there is only its
// start.
func parseCommand(b []byte) (cmd []string, left []byte, ok bool) {
	n, b, ok := parseNumber(b)
	for range n {
		var size int
		if size, b, ok = parseNumber(b); !ok || len(b) < size+2 {
			return nil, nil, false
		}
		cmd, b = append(cmd, string(b[:size])), b[size+2:]
	}
	return cmd, b, ok
}

// parseNumber reads a line such as *3.
func parseNumber(b []byte) (n int, left []byte, ok bool) {
	for i := 1; i+1 < len(b); i++ {
		if b[i] == '\r' {
			n, err := strconv.Atoi(string(b[1:i]))
			if err != nil {
				panic("explore: a command that is none: " + string(b[:i]))
			}
			return n, b[i+2:], true
		}
	}
	return 0, nil, false
}

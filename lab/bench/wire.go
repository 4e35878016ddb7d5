package main

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// wire counts the commands that a client sends. It counts writes to
// connections, so all libraries are counted alike. Commands that scripts run on
// the server do not count.
type wire struct {
	commands atomic.Int64
	bytes    atomic.Int64 // in both directions
}

// dial is a dialer for go-redis.
func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 5 * time.Minute} // as in go-redis
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return w.watch(c), nil
}

func (w *wire) watch(c net.Conn) net.Conn { return &countedConn{Conn: c, wire: w} }

// countedConn is written to by one goroutine at a time, as all clients do.
type countedConn struct {
	net.Conn

	wire     *wire
	requests requests
}

// SyscallConn lets go-redis check whether the connection is alive.
func (c *countedConn) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(*net.TCPConn).SyscallConn()
}

func (c *countedConn) Write(b []byte) (int, error) {
	if n := c.requests.feed(b); n > 0 {
		c.wire.commands.Add(int64(n))
	}
	n, err := c.Conn.Write(b)
	c.wire.bytes.Add(int64(n))
	return n, err
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.bytes.Add(int64(n))
	return n, err
}

// requests finds the commands in a stream of RESP arrays of bulk strings.
// Clients send nothing else.
type requests struct {
	kind   byte // of the line that is being read; 0 if none
	number int
	skip   int // remaining bytes of a bulk string, with its line end
}

// feed reads the next part of the stream. It returns the number of commands
// that begin in it.
func (r *requests) feed(b []byte) (n int) {
	for len(b) > 0 {
		if r.skip > 0 {
			k := min(r.skip, len(b))
			r.skip -= k
			b = b[k:]
			continue
		}
		switch c := b[0]; {
		case c == '*' || c == '$':
			r.kind, r.number = c, 0
		case c >= '0' && c <= '9':
			r.number = 10*r.number + int(c-'0')
		case c == '\n' && r.kind == '*':
			n++
		case c == '\n' && r.kind == '$':
			r.skip = r.number + len("\r\n")
		}
		b = b[1:]
	}
	return n
}

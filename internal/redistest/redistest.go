// Package redistest gives tests real Redis servers, a faulty network in front
// of them, and an in-memory server. The in-memory server keeps the virtual time
// of a testing/synctest bubble. Everything that is started for a test ends with
// it.
package redistest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Miniredis returns an in-memory server and a client of it. The server's TTLs
// run on the clock of the test's bubble. Both use pipes instead of sockets, so
// that a bubble knows when they are idle. Both are closed when t ends.
func Miniredis(t testing.TB) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	m, opts := InMemory(t.Cleanup)
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return m, rdb
}

// InMemory is [Miniredis] for clients that the caller makes and closes. cleanup
// gets what closes the server and the connections.
func InMemory(cleanup func(func())) (*miniredis.Miniredis, *redis.Options) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	cleanup(m.Close)
	d := &dialer{dialTo: m.Dial}
	cleanup(d.close)
	return m, &redis.Options{
		Addr:   "127.0.0.1:6379", // an address, because the resolver lives outside the bubble
		Dialer: func(context.Context, string, string) (net.Conn, error) { return d.dial() },
	}
}

// dialer keeps its connections. A client that is closed while it connects
// forgets its connection, so dialer closes it.
type dialer struct {
	dialTo func() (net.Conn, error)

	mu     sync.Mutex // guards the fields below
	conns  []net.Conn
	closed bool
}

func (d *dialer) dial() (net.Conn, error) {
	c, err := d.dialTo()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	b := newBuffered(c)
	d.conns = append(d.conns, b)
	return b, nil
}

func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, c := range d.conns {
		_ = c.Close()
	}
}

// Client returns a client with go-redis's own defaults for the server at addr.
// It is closed when t ends.
func Client(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

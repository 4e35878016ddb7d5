// Package redistest gives tests real Redis servers, a faulty network in front of them, and an in-memory one that keeps
// the virtual time of a testing/synctest bubble. What is started for a test ends with it.
package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Miniredis returns an in-memory server whose TTLs run on the clock of the test's bubble, and a client of it. Both use
// pipes instead of sockets, so that a bubble knows when they are idle; both are closed when t ends.
func Miniredis(t testing.TB) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	rdb := redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:6379", // an address: a name would be resolved, and the resolver lives outside the bubble
		Dialer: func(context.Context, string, string) (net.Conn, error) { return dial(m) },
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return m, rdb
}

func dial(m *miniredis.Miniredis) (net.Conn, error) {
	c, err := m.Dial()
	if err != nil {
		return nil, err
	}
	return newBuffered(c), nil
}

// Client returns a client with go-redis's own defaults for the server at addr, closed when t ends.
func Client(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

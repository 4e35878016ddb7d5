package redistest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// NAT is a network that forgets connections, also those of a server in memory,
// see [InMemory]. Its methods are safe for concurrent use.
type NAT struct {
	mu    sync.Mutex // guards conns; never held across I/O
	conns []*natted  // that were not forgotten
}

// Over returns a Dialer whose connections go through the NAT.
func (n *NAT) Over(dial Dialer) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &natted{Conn: conn}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.conns = append(n.conns, c)
		return c, nil
	}
}

// Forget does what [Proxy.SilenceAll] does.
func (n *NAT) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.forgotten.Store(true)
	}
	n.conns = nil
}

// natted is a connection through a NAT.
type natted struct {
	net.Conn

	forgotten atomic.Bool
}

// Read returns no byte of a connection that was forgotten. It ends with the
// deadline, or when either end is closed.
func (c *natted) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil {
			return 0, err
		}
		if !c.forgotten.Load() {
			return n, nil
		}
	}
}

func (c *natted) Write(b []byte) (int, error) {
	if c.forgotten.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

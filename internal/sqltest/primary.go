package sqltest

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/go-lockguard/guard/internal/faultpipe"
)

// Primary is an address that leads to a server, and to another one after a
// failover. It is safe for concurrent use.
type Primary struct {
	pipe   *faultpipe.Pipe
	target atomic.Pointer[string]
}

// NewPrimary returns an address of the server at addr. The caller closes it.
func NewPrimary(ctx context.Context, addr string) (*Primary, error) {
	pipe, err := faultpipe.New(ctx)
	if err != nil {
		return nil, err
	}
	p := &Primary{pipe: pipe}
	p.target.Store(&addr)
	pipe.Serve(func(client net.Conn) (faultpipe.Link, error) {
		server, err := new(net.Dialer).DialContext(ctx, "tcp", *p.target.Load())
		if err != nil {
			return nil, err
		}
		return &link{client, server}, nil
	})
	return p, nil
}

// Addr is the address.
func (p *Primary) Addr() string { return p.pipe.Addr }

// Move leads new connections to the server at addr. Those that are there stay.
func (p *Primary) Move(addr string) { p.target.Store(&addr) }

// Close ends all connections.
func (p *Primary) Close() { p.pipe.Close() }

// link is one connection, which passes everything on.
type link struct{ client, server net.Conn }

func (k *link) Ends() (client, server net.Conn) { return k.client, k.server }
func (k *link) Up(b []byte) bool                { return write(k.server, b) }
func (k *link) Down(b []byte) bool              { return write(k.client, b) }

func write(c net.Conn, b []byte) bool {
	_, err := c.Write(b)
	return err == nil
}

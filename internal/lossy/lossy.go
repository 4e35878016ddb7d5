// Package lossy is a network for tests that loses requests or answers.
package lossy

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-lockguard/guard/internal/faultpipe"
)

// Pipe is a network between clients and a server. Its methods are safe for
// concurrent use.
type Pipe struct {
	Addr string

	pipe     *faultpipe.Pipe
	up, down atomic.Bool // bytes are swallowed
	refuse   atomic.Bool // connections are refused
}

// New starts a Pipe to the server at upstream. It ends with tb.
func New(tb testing.TB, upstream string) *Pipe {
	tb.Helper()
	p, err := Open(tb.Context(), upstream)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Open starts a Pipe that the caller must close.
func Open(ctx context.Context, upstream string) (*Pipe, error) {
	pipe, err := faultpipe.New(ctx)
	if err != nil {
		return nil, err
	}
	p := &Pipe{Addr: pipe.Addr, pipe: pipe}
	pipe.Serve(func(client net.Conn) (faultpipe.Link, error) {
		if p.refuse.Load() {
			return nil, net.ErrClosed
		}
		server, err := net.Dial("tcp", upstream)
		if err != nil {
			return nil, err
		}
		return &link{p, client, server}, nil
	})
	return p, nil
}

// Close ends the Pipe. It must be called once.
func (p *Pipe) Close() { p.pipe.Close() }

// Cut lets requests get lost, or answers, or both. The function that it returns
// mends the network. Connections that have lost bytes are closed then.
func (p *Pipe) Cut(requests, answers bool) (mend func()) {
	p.up.Store(requests)
	p.down.Store(answers)
	return func() {
		p.pipe.Cut(nil)
		p.up.Store(false)
		p.down.Store(false)
		p.pipe.Cut(nil)
	}
}

// Refuse closes all connections, and new ones at once, until mend is called.
func (p *Pipe) Refuse() (mend func()) {
	p.refuse.Store(true)
	p.pipe.Cut(nil)
	return func() { p.refuse.Store(false) }
}

type link struct {
	pipe           *Pipe
	client, server net.Conn
}

func (l *link) Ends() (client, server net.Conn) { return l.client, l.server }
func (l *link) Up(b []byte) bool                { return l.pipe.up.Load() || written(l.server, b) }
func (l *link) Down(b []byte) bool              { return l.pipe.down.Load() || written(l.client, b) }

func written(c net.Conn, b []byte) bool {
	_, err := c.Write(b)
	return err == nil
}

package faultpipe

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
)

// Lossy is a network between clients and a server that loses requests or
// answers. Its methods are safe for concurrent use.
type Lossy struct {
	Addr string

	pipe     *Pipe
	up, down atomic.Bool                   // bytes are swallowed
	refuse   atomic.Bool                   // connections are refused
	hung     atomic.Pointer[chan struct{}] // closed when bytes pass again; nil: they pass
}

// NewLossy starts a Lossy to the server at upstream. The Lossy ends with tb.
func NewLossy(tb testing.TB, upstream string) *Lossy {
	tb.Helper()
	p, err := OpenLossy(tb.Context(), upstream)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// OpenLossy starts a Lossy that the caller must close.
func OpenLossy(ctx context.Context, upstream string) (*Lossy, error) {
	pipe, err := New(ctx)
	if err != nil {
		return nil, err
	}
	p := &Lossy{Addr: pipe.Addr, pipe: pipe}
	pipe.Serve(func(client net.Conn) (Link, error) {
		if p.refuse.Load() {
			return nil, net.ErrClosed
		}
		server, err := net.Dial("tcp", upstream)
		if err != nil {
			return nil, err
		}
		return &lossyLink{p, client, server}, nil
	})
	return p, nil
}

// Close ends the Lossy. Close must be called once.
func (p *Lossy) Close() { p.pipe.Close() }

// Cut lets requests get lost, or answers, or both. The function that it returns
// mends the network. Connections that have lost bytes are closed then.
func (p *Lossy) Cut(requests, answers bool) (mend func()) {
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
func (p *Lossy) Refuse() (mend func()) {
	p.refuse.Store(true)
	p.pipe.Cut(nil)
	return func() { p.refuse.Store(false) }
}

// Hang keeps all bytes back until mend, which passes them on.
func (p *Lossy) Hang() (mend func()) {
	hung := make(chan struct{})
	p.hung.Store(&hung)
	return func() {
		p.hung.Store(nil)
		close(hung)
	}
}

// wait blocks while p hangs.
func (p *Lossy) wait() {
	if hung := p.hung.Load(); hung != nil {
		select {
		case <-*hung:
		case <-p.pipe.Closed():
		}
	}
}

type lossyLink struct {
	pipe           *Lossy
	client, server net.Conn
}

func (l *lossyLink) Ends() (client, server net.Conn) { return l.client, l.server }

func (l *lossyLink) Up(b []byte) bool {
	l.pipe.wait()
	return l.pipe.up.Load() || written(l.server, b)
}

func (l *lossyLink) Down(b []byte) bool {
	l.pipe.wait()
	return l.pipe.down.Load() || written(l.client, b)
}

func written(c net.Conn, b []byte) bool {
	_, err := c.Write(b)
	return err == nil
}

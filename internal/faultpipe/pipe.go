// Package faultpipe carries connections between clients and servers for tests
// that break networks. The owner of a pipe decides what a fault does to the
// bytes, see [Link].
package faultpipe

import (
	"context"
	"net"
	"sync"
)

// Link is one connection through a [Pipe], made by the pipe's owner. Up and
// Down are called by one goroutine each. Both may block until the pipe is
// closed.
type Link interface {
	// Ends returns the connections to the client and to the server, always the
	// same two.
	Ends() (client, server net.Conn)

	// Up gets the bytes that the client has sent. It writes them to the server,
	// unless a fault prevents that. If it returns false the connection is cut.
	Up(b []byte) bool

	// Down gets the bytes that the server has sent.
	Down(b []byte) bool
}

// Pipe accepts connections on a free port of this machine and carries their
// bytes. Its methods are safe for concurrent use.
type Pipe struct {
	Addr string

	listener net.Listener
	closed   chan struct{}
	work     sync.WaitGroup // the accept loop and every connection; joined by Close

	mu    sync.Mutex // guards links; never held across I/O except closing, which does not wait
	links map[Link]struct{}
}

// New listens. Clients wait until the caller calls Serve. The caller must call
// Close, because the end of ctx does not end the pipe.
func New(ctx context.Context) (*Pipe, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Pipe{Addr: l.Addr().String(), listener: l, closed: make(chan struct{}), links: map[Link]struct{}{}}, nil
}

// Serve accepts clients from now on and returns at once. Serve calls open in a
// new goroutine for each client. If open returns an error it closes the client.
func (p *Pipe) Serve(open func(client net.Conn) (Link, error)) {
	p.work.Go(func() { p.accept(open) })
}

// Closed returns a channel that Close closes. A Link that holds bytes back must
// stop when it is closed.
func (p *Pipe) Closed() <-chan struct{} { return p.closed }

// Close cuts all connections and waits until all goroutines of the pipe have
// ended. Close must be called once.
func (p *Pipe) Close() {
	close(p.closed)
	_ = p.listener.Close()
	p.Cut(nil)
	p.work.Wait()
}

// Cut ends the connections for which the function which returns true, or all if
// which is nil. New connections can be made.
func (p *Pipe) Cut(which func(Link) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if which == nil || which(l) {
			end(l)
		}
	}
}

func end(l Link) {
	client, server := l.Ends()
	_ = client.Close()
	_ = server.Close()
}

// accept ends when the listener is closed.
func (p *Pipe) accept(open func(client net.Conn) (Link, error)) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() {
			l, err := open(client)
			if err != nil {
				_ = client.Close()
				return
			}
			p.carry(l)
		})
	}
}

// carry serves one connection until it ends.
func (p *Pipe) carry(l Link) {
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	defer func() {
		end(l)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	}()
	select {
	case <-p.closed: // Close's cut may have missed this one
		return
	default:
	}
	client, server := l.Ends()
	var up sync.WaitGroup
	defer up.Wait()
	up.Go(func() {
		if pump(client, l.Up) {
			endRequests(server)
		} else {
			end(l)
		}
	})
	pump(server, l.Down)
	end(l)
}

// pump gives the bytes that arrive on c to pass. pump returns false if pass has
// ended the connection.
func pump(c net.Conn, pass func(b []byte) bool) bool {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if n > 0 && !pass(buf[:n]) {
			return false
		}
		if err != nil {
			return true
		}
	}
}

// endRequests tells the server that no more requests will come, if c can. The
// server still handles the requests that it has received.
func endRequests(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}

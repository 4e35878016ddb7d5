// Package faultpipe carries connections between clients and servers for tests
// that break networks. What a fault does to the bytes is its owner's: see
// [Link].
package faultpipe

import (
	"context"
	"net"
	"sync"
)

// Link is one connection through a [Pipe], as the pipe's owner makes it. Up and
// Down are called by one goroutine each. They may block, for as long as the
// pipe is not closed.
type Link interface {
	// Ends returns the connections to the client and to the server, always the
	// same two.
	Ends() (client, server net.Conn)

	// Up is given what the client has sent. It writes that to the server,
	// unless a fault says otherwise. False cuts the connection.
	Up(b []byte) bool

	// Down is given what the server has sent.
	Down(b []byte) bool
}

// Pipe accepts connections on a free port of this machine, and carries what
// comes over them. Its methods are safe for concurrent use.
type Pipe struct {
	Addr string

	listener net.Listener
	closed   chan struct{}
	work     sync.WaitGroup // the accept loop and every connection; joined by Close

	mu    sync.Mutex // guards links; never held across I/O, but for closing, which does not wait
	links map[Link]struct{}
}

// New listens. Clients wait until the caller calls Serve. The caller calls
// Close; the end of ctx does not end the pipe.
func New(ctx context.Context) (*Pipe, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Pipe{Addr: l.Addr().String(), listener: l, closed: make(chan struct{}), links: map[Link]struct{}{}}, nil
}

// Serve accepts clients from now on, and returns at once. It calls open in a
// goroutine of its own for each, and closes the client if open returns an
// error.
func (p *Pipe) Serve(open func(client net.Conn) (Link, error)) {
	p.work.Go(func() { p.accept(open) })
}

// Closed is closed by Close. A Link that holds bytes back ends that then.
func (p *Pipe) Closed() <-chan struct{} { return p.closed }

// Close cuts all connections and waits until nothing of the pipe runs any more.
// It must be called once.
func (p *Pipe) Close() {
	close(p.closed)
	_ = p.listener.Close()
	p.Cut(nil)
	p.work.Wait()
}

// Cut ends the connections that which chooses, or all if it is nil. New ones
// can be made.
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

// carry is one connection, to its end.
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
	case <-p.closed: // the cut may have missed this one
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

// pump gives what comes over c to pass. It reports false if that has ended it.
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

// endRequests tells the server that no more will come. It still does what it
// was sent, if c can say so.
func endRequests(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}

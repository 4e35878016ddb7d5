package show

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// breaker stands between the instances and Redis, and can cut them off:
// connections are closed, and new ones as soon as they are made. It does not
// look at the bytes that it passes on. Safe for concurrent use.
type breaker struct {
	addr     string
	listener net.Listener
	dial     func(ctx context.Context) (net.Conn, error)
	ctx      context.Context // ends with the breaker: for its own dials
	end      context.CancelFunc
	work     sync.WaitGroup // the accept loop and both directions of each connection; joined by close

	mu    sync.Mutex // guards what follows; not held across I/O, but for closing a socket, which does not wait
	until time.Time  // cut off until then
	conns map[net.Conn]bool
}

// startBreaker listens on a port of its own for as long as it is not closed.
func startBreaker(ctx context.Context, network, upstream string) (*breaker, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &breaker{addr: l.Addr().String(), listener: l, conns: map[net.Conn]bool{}}
	b.ctx, b.end = context.WithCancel(context.WithoutCancel(ctx))
	b.dial = func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, upstream)
	}
	b.work.Go(b.accept)
	return b, nil
}

// cut cuts everybody off for d.
func (b *breaker) cut(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Now().Add(d)
	for c := range b.conns {
		c.Close()
	}
}

// close ends every connection and waits for its goroutines.
func (b *breaker) close() {
	b.end()
	b.listener.Close()
	b.cut(time.Hour)
	b.work.Wait()
}

func (b *breaker) accept() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return // closed
		}
		b.work.Go(func() { b.pass(c) })
	}
}

// pass joins one client to Redis until one of them has had enough, or is cut
// off.
func (b *breaker) pass(client net.Conn) {
	defer client.Close()
	if !b.keep(client) {
		return
	}
	defer b.drop(client)
	server, err := b.dial(b.ctx)
	if err != nil {
		return
	}
	defer server.Close()
	if !b.keep(server) {
		return
	}
	defer b.drop(server)
	b.work.Go(func() {
		_, _ = io.Copy(server, client)
		server.Close() // ends the other direction too
	})
	_, _ = io.Copy(client, server)
}

// keep remembers a connection to be cut, and reports false while everybody is
// cut off.
func (b *breaker) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.until) {
		return false
	}
	b.conns[c] = true
	return true
}

func (b *breaker) drop(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

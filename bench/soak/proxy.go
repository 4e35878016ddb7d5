package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// proxy is the network between one worker and the store.
type proxy struct {
	addr     string
	upstream string
	dialer   net.Dialer
	listener net.Listener
	pipes    sync.WaitGroup

	refuses atomic.Bool  // new connections are cut at once
	holes   atomic.Bool  // what connections carry from now on is lost, and they never carry anything again
	delay   atomic.Int64 // ns, of replies

	mu    sync.Mutex // guards links
	links map[*link]struct{}
}

type link struct {
	client, server net.Conn
	hole           atomic.Bool // bytes were lost, so none may follow: a stream has no gaps
}

func newProxy(ctx context.Context, upstream string) (*proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{addr: l.Addr().String(), upstream: upstream, listener: l, links: map[*link]struct{}{}}
	p.dialer.Timeout = time.Second
	p.pipes.Go(func() { p.accept(ctx) })
	return p, nil
}

// close ends it and all connections.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.refuses.Store(true)
	p.cut(nil)
	p.pipes.Wait()
}

// cut ends the connections that which says, or all.
func (p *proxy) cut(which func(*link) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if which == nil || which(l) {
			l.close()
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// partition cuts it for d.
func (p *proxy) partition(d time.Duration) {
	p.refuses.Store(true)
	p.cut(nil)
	time.Sleep(d)
	p.refuses.Store(false)
}

// swallow loses everything for d, as a network does that is broken until the connections are given up.
func (p *proxy) swallow(d time.Duration) {
	p.holes.Store(true)
	time.Sleep(d)
	p.holes.Store(false)
	p.cut(func(l *link) bool { return l.hole.Load() })
}

// slow delays replies for d.
func (p *proxy) slow(by, d time.Duration) {
	p.delay.Store(int64(by))
	time.Sleep(d)
	p.delay.Store(0)
}

func (p *proxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.refuses.Load() {
			_ = client.Close()
			continue
		}
		server, err := p.dialer.DialContext(ctx, "tcp", p.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.links[l] = struct{}{}
		p.mu.Unlock()
		if p.refuses.Load() { // the cut may have missed this one
			l.close()
		}
		var both sync.WaitGroup
		both.Go(func() { p.pipe(l, client, server, false) })
		both.Go(func() { p.pipe(l, server, client, true) })
		p.pipes.Go(func() {
			both.Wait()
			p.mu.Lock()
			delete(p.links, l)
			p.mu.Unlock()
		})
	}
}

// pipe carries one direction until either end is closed.
func (p *proxy) pipe(l *link, from, to net.Conn, replies bool) {
	defer l.close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.holes.Load() {
			l.hole.Store(true)
		}
		if n > 0 && !l.hole.Load() {
			if d := p.delay.Load(); replies && d > 0 {
				time.Sleep(time.Duration(d))
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

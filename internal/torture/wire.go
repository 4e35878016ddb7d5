package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// wire is the network between one worker and all servers. A connection begins with a line that says where it goes. What is
// held up arrives late, as over TCP: also when the worker has given it up, or has died.
type wire struct {
	addr     string
	dialer   net.Dialer
	listener net.Listener
	closed   chan struct{}
	work     sync.WaitGroup // the accept loop and every pipe; joined by close

	up, down valve
	refuses  atomic.Bool  // new connections are cut at once
	holes    atomic.Bool  // what connections carry is lost, and they never carry anything again
	delay    atomic.Int64 // ns, of each burst of replies
	kills    atomic.Int32 // replies whose connection is still to be cut instead

	mu    sync.Mutex // guards links; never held across I/O
	links map[*link]struct{}
}

type link struct {
	client, server net.Conn
	hole           atomic.Bool // bytes were lost, so none may follow: a stream has no gaps
}

// dialBy returns a dial function for a worker whose wire is at addr.
func dialBy(wire string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", wire)
		if err != nil {
			return nil, err
		}
		if _, err := io.WriteString(c, addr+"\n"); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
}

func newWire(ctx context.Context) (*wire, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{addr: l.Addr().String(), listener: l, closed: make(chan struct{}), links: map[*link]struct{}{}}
	w.dialer.Timeout = time.Second
	w.work.Go(func() { w.accept(ctx) })
	return w, nil
}

func (w *wire) close() {
	close(w.closed)
	_ = w.listener.Close()
	w.cut(nil)
	w.work.Wait()
}

// cut ends the connections that which says, or all.
func (w *wire) cut(which func(*link) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		if which == nil || which(l) {
			l.close()
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (w *wire) accept(ctx context.Context) {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.work.Go(func() { w.carry(ctx, client) })
	}
}

// carry is one connection, from its first line to its end.
func (w *wire) carry(ctx context.Context, client net.Conn) {
	defer client.Close()
	l := &link{client: client}
	_ = client.SetReadDeadline(time.Now().Add(w.dialer.Timeout))
	in := bufio.NewReaderSize(client, 32<<10)
	to, err := in.ReadString('\n')
	if err != nil || w.refuses.Load() {
		return
	}
	_ = client.SetReadDeadline(time.Time{})
	if l.server, err = w.dialer.DialContext(ctx, "tcp", strings.TrimSpace(to)); err != nil {
		return
	}
	w.mu.Lock()
	w.links[l] = struct{}{}
	w.mu.Unlock()
	defer func() {
		l.close()
		w.mu.Lock()
		delete(w.links, l)
		w.mu.Unlock()
	}()
	select {
	case <-w.closed: // the cut may have missed this one
		return
	default:
	}
	var up sync.WaitGroup
	up.Go(func() {
		w.requests(l, in)
		_ = l.server.(*net.TCPConn).CloseWrite() // what it has got it still does
	})
	w.replies(l)
	l.close()
	up.Wait()
}

func (w *wire) requests(l *link, in io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && (!w.up.pass(w.closed) || !l.send(l.server, buf[:n], &w.holes)) {
			return
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) replies(l *link) {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(buf)
		if n > 0 {
			if w.kills.Load() > 0 && w.kills.Add(-1) >= 0 {
				return
			}
			if d := w.delay.Load(); d > 0 {
				time.Sleep(time.Duration(d))
			}
			if !w.down.pass(w.closed) || !l.send(l.client, buf[:n], &w.holes) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// send passes bytes on, unless they are to be lost; false if the connection has ended.
func (l *link) send(to net.Conn, b []byte, holes *atomic.Bool) bool {
	if holes.Load() {
		l.hole.Store(true)
	}
	if l.hole.Load() {
		return true
	}
	_, err := to.Write(b)
	return err == nil
}

// valve lets bytes pass in one direction, or holds them up.
type valve struct {
	mu   sync.Mutex // guards shut
	shut chan struct{}
}

// hold shuts the valve until the function that it returns is called.
func (v *valve) hold() (open func()) {
	shut := make(chan struct{})
	v.mu.Lock()
	v.shut = shut
	v.mu.Unlock()
	return func() { close(shut) }
}

// pass returns when the valve is open, or false when closed is.
func (v *valve) pass(closed <-chan struct{}) bool {
	v.mu.Lock()
	shut := v.shut
	v.mu.Unlock()
	if shut == nil {
		return true
	}
	select {
	case <-shut:
		return true
	case <-closed:
		return false
	}
}

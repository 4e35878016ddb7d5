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

	"github.com/go-lockguard/guard/internal/faultpipe"
)

// wire is the network between one worker and all servers. The first line of a
// connection is its target. Bytes that are held up arrive late, as over TCP,
// even if the worker has given up or died.
type wire struct {
	addr   string
	pipe   *faultpipe.Pipe
	dialer net.Dialer

	up, down valve
	refuses  atomic.Bool  // new connections are cut at once
	holes    atomic.Bool  // bytes on connections are lost, then and later
	delay    atomic.Int64 // ns, of each burst of replies
	kills    atomic.Int32 // replies whose connection is still to be cut instead
}

// link is one connection of a wire.
type link struct {
	wire   *wire
	client lined
	server net.Conn
	hole   atomic.Bool // bytes were lost, so none may follow: a stream has no gaps
}

// lined is a connection whose first line has been read.
type lined struct {
	net.Conn

	in *bufio.Reader
}

func (c lined) Read(b []byte) (int, error) { return c.in.Read(b) }

// dialBy returns the dial function for a worker whose wire is at addr.
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
	pipe, err := faultpipe.New(ctx)
	if err != nil {
		return nil, err
	}
	w := &wire{addr: pipe.Addr, pipe: pipe, dialer: net.Dialer{Timeout: time.Second}}
	pipe.Serve(w.open)
	return w, nil
}

func (w *wire) close() { w.pipe.Close() }

// cut ends the connections for which the function which returns true, or all if
// it is nil.
func (w *wire) cut(which func(*link) bool) {
	w.pipe.Cut(func(l faultpipe.Link) bool { return which == nil || which(l.(*link)) })
}

var errRefused = errors.New("the wire is cut")

// open reads the first line of a connection and connects to that target.
func (w *wire) open(client net.Conn) (faultpipe.Link, error) {
	_ = client.SetReadDeadline(time.Now().Add(w.dialer.Timeout))
	in := bufio.NewReaderSize(client, 32<<10)
	to, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if w.refuses.Load() {
		return nil, errRefused
	}
	_ = client.SetReadDeadline(time.Time{})
	server, err := w.dialer.Dial("tcp", strings.TrimSpace(to))
	if err != nil {
		return nil, err
	}
	return &link{wire: w, client: lined{client, in}, server: server}, nil
}

func (l *link) Ends() (client, server net.Conn) { return l.client, l.server }

// Up passes requests on when they may pass.
func (l *link) Up(b []byte) bool {
	return l.wire.up.pass(l.wire.pipe.Closed()) && l.send(l.server, b)
}

// Down passes replies on when they may pass, unless their connection must be
// cut.
func (l *link) Down(b []byte) bool {
	w := l.wire
	if w.kills.Load() > 0 && w.kills.Add(-1) >= 0 {
		return false
	}
	if d := w.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	return w.down.pass(w.pipe.Closed()) && l.send(l.client, b)
}

// send passes bytes on, unless they must be lost. It returns false if the
// connection has ended.
func (l *link) send(to net.Conn, b []byte) bool {
	if l.wire.holes.Load() {
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

// pass returns when the valve is open. It returns false when closed is closed.
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

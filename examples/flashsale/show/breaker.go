package show

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/faultpipe"
)

// breaker stands between the instances and Redis, and can cut them off. It then
// closes their connections, and new ones as soon as they are made. It does not
// look at the bytes that it passes on. It is safe for concurrent use.
type breaker struct {
	*faultpipe.Pipe

	end context.CancelFunc // ends the breaker's own dials

	mu    sync.Mutex // guards until
	until time.Time  // cut off until then
}

var errCutOff = errors.New("cut off")

// startBreaker listens on a port of its own for as long as it is not closed.
func startBreaker(ctx context.Context, network, upstream string) (*breaker, error) {
	p, err := faultpipe.New(ctx)
	if err != nil {
		return nil, err
	}
	b := &breaker{Pipe: p}
	ctx, b.end = context.WithCancel(context.WithoutCancel(ctx))
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	p.Serve(func(client net.Conn) (faultpipe.Link, error) {
		if b.isCut() {
			return nil, errCutOff
		}
		server, err := dialer.DialContext(ctx, network, upstream)
		return &link{b, client, server}, err
	})
	return b, nil
}

// cut cuts everybody off for d.
func (b *breaker) cut(d time.Duration) {
	b.mu.Lock()
	b.until = time.Now().Add(d)
	b.mu.Unlock()
	b.Cut(nil)
}

func (b *breaker) isCut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until)
}

// close ends every connection and waits for its goroutines.
func (b *breaker) close() {
	b.end()
	b.Close()
}

// link is one connection through a breaker.
type link struct {
	breaker        *breaker
	client, server net.Conn
}

// Ends implements [faultpipe.Link].
func (l *link) Ends() (client, server net.Conn) { return l.client, l.server }

// Up implements [faultpipe.Link].
func (l *link) Up(b []byte) bool { return l.pass(l.server, b) }

// Down implements [faultpipe.Link].
func (l *link) Down(b []byte) bool { return l.pass(l.client, b) }

// pass writes b to one end. It looks for a cut itself, because the link may
// have been dialed while the others were cut.
func (l *link) pass(to net.Conn, b []byte) bool {
	if l.breaker.isCut() {
		return false
	}
	_, err := to.Write(b)
	return err == nil
}

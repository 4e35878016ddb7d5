package postgreslocker_test

import (
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// way is what a test does to the bytes between a locker and the server. gone
// turns clients away. still keeps the bytes of both directions, and the end of
// a connection, from the other side for good.
type way struct{ loseUp, loseDown, gone, still atomic.Bool }

// link is one connection. While a direction loses its bytes, the connection is
// spoilt for good, and ends when the fault is mended.
type link struct {
	client, server net.Conn
	way            *way
	spoilt         atomic.Bool
	closed         <-chan struct{} // by the pipe
}

func (k *link) Ends() (client, server net.Conn) { return k.client, k.server }
func (k *link) Up(b []byte) bool                { return k.pass(&k.way.loseUp, k.server, b) }
func (k *link) Down(b []byte) bool              { return k.pass(&k.way.loseDown, k.client, b) }

func (k *link) pass(lose *atomic.Bool, to net.Conn, b []byte) bool {
	if k.way.still.Load() {
		<-k.closed
		return false
	}
	if lose.Load() {
		k.spoilt.Store(true)
		return true
	}
	if k.spoilt.Load() {
		return false
	}
	_, err := to.Write(b)
	return err == nil
}

// piped returns the server's address through a pipe, and the pipe.
func piped(t *testing.T, w *way) (*faultpipe.Pipe, string) {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	p, err := faultpipe.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.Serve(func(client net.Conn) (faultpipe.Link, error) {
		if w.gone.Load() {
			return nil, net.ErrClosed
		}
		conn, err := net.Dial("tcp", target)
		if err != nil {
			return nil, err
		}
		return &link{client: client, server: conn, way: w, closed: p.Closed()}, nil
	})
	u.Host = p.Addr
	return p, u.String()
}

func TestTheLockerKeepsItsPromisesWithoutAnswers(t *testing.T) {
	for name, fault := range map[string]func(w *way, on bool){
		"requests get lost": func(w *way, on bool) { w.loseUp.Store(on) },
		"answers get lost":  func(w *way, on bool) { w.loseDown.Store(on) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
				t.Helper()
				var w way
				pipe, dsn := piped(t, &w)
				straight, _ := pair(t)
				opt := postgreslocker.WithTable(tableOf(straight))
				return postgreslocker.New(poolTo(t, dsn), opt), postgreslocker.New(poolTo(t, dsn), opt), func() func() {
					fault(&w, true)
					return func() {
						fault(&w, false)
						pipe.Cut(func(l faultpipe.Link) bool { return l.(*link).spoilt.Load() })
					}
				}
			}, lockertest.AtOnce(8))
		})
	}
}

package redislocker_test

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// halting is a connection whose reader gets only this many bytes until the test
// lets the rest through.
type halting struct {
	*net.TCPConn               // a client looks at its socket before it uses it again
	pass         *atomic.Int64 // bytes; below 0: all
	rest         <-chan struct{}
}

func (c halting) Read(p []byte) (int, error) {
	left := c.pass.Load()
	if left < 0 {
		return c.TCPConn.Read(p)
	}
	if left == 0 {
		<-c.rest
		c.pass.Store(-1)
		return c.TCPConn.Read(p)
	}
	n, err := c.TCPConn.Read(p[:min(int64(len(p)), left)])
	c.pass.Add(int64(-n))
	return n, err
}

func TestARenewalTellsEachAnswerAsItIsRead(t *testing.T) {
	addr := redistest.Start(t).Addr
	var pass atomic.Int64
	pass.Store(-1)
	rest := make(chan struct{})
	rdb := redis.NewClient(&redis.Options{
		Addr: addr,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return halting{c.(*net.TCPConn), &pass, rest}, nil
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	l := open(t, rdb)
	cs := make([]*locker.Claim, 10)
	for i := range cs {
		cs[i] = claim(strconv.Itoa(i))
		mustAcquire(t, l, cs[i])
	}
	l.Renew(t.Context(), cs, func(_ int, err error) { // on a connection that the next one finds
		if err != nil {
			t.Error(err)
		}
	})
	pass.Store(5 * int64(len(":1\r\n")))
	answers := make(chan error, len(cs))
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Renew(t.Context(), cs, func(_ int, err error) { answers <- err })
	}()
	for range 5 { // a locker that tells them all at the end would hang here
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	close(rest)
	<-done
	if n := len(answers); n != 5 {
		t.Errorf("%d answers came with the rest, want 5", n)
	}
}

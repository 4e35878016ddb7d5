package watermilllock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	watermilllock "github.com/go-lockguard/guard/jobs/watermill"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// counts counts the requests of a turn.
type counts struct {
	*memlocker.Locker
	requests atomic.Int64
}

func (c *counts) Acquire(ctx context.Context, claim *locker.Claim, t locker.Try) (locker.Answer, error) {
	c.requests.Add(1)
	return c.Locker.Acquire(ctx, claim, t)
}

func (c *counts) Renew(ctx context.Context, claims []*locker.Claim, answered func(i int, err error)) {
	c.requests.Add(1)
	c.Locker.Renew(ctx, claims, answered)
}

func (c *counts) Release(ctx context.Context, claim *locker.Claim, e locker.End) (locker.Released, error) {
	c.requests.Add(1)
	return c.Locker.Release(ctx, claim, e)
}

func TestTheNextMessageOfAKeyThatLingersCostsNoRequest(t *testing.T) {
	for d, want := range map[time.Duration]int64{time.Second: 0, 0: 2} {
		synctest.Test(t, func(t *testing.T) {
			l := &counts{Locker: memlocker.New()}
			g, err := guard.New(l, quiet, guard.WithLinger(d))
			if err != nil {
				t.Fatal(err)
			}
			handle := watermilllock.Key(g, key)(done)
			message := func() {
				t.Helper()
				if _, err := handle(messageOf(t.Context(), "7")); err != nil {
					t.Fatal(err)
				}
			}
			for range 4 { // the last one leaves the key idle
				message()
			}
			time.Sleep(d / 2)
			before := l.requests.Load()
			message()
			if n := l.requests.Load() - before; n != want {
				t.Errorf("WithLinger(%v): a message costs %d requests, want %d", d, n, want)
			}
			if err := g.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

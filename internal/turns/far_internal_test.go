package turns

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A far is a process's way to a store from which an answer takes a quarter of a
// second. Messages come at once.
type far struct{ *memlocker.Locker }

const oneWay = 125 * time.Millisecond

func (f far) Acquire(ctx context.Context, c *locker.Claim, try locker.Try) (locker.Answer, error) {
	time.Sleep(oneWay)
	defer time.Sleep(oneWay)
	return f.Locker.Acquire(ctx, c, try)
}

func (f far) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	time.Sleep(oneWay)
	f.Locker.Renew(ctx, cs, func(i int, err error) {
		if time.Sleep(oneWay); ctx.Err() != nil {
			err = locker.ErrUnavailable // its caller has given up
		}
		answered(i, err)
	})
}

// A key that was handed over is not lost when the store is far, whenever that
// is between two looks. An offer must last for two renewals.
func TestAKeyFromAFarStoreIsNotLost(t *testing.T) {
	s := settings()
	s.TTL = 3 * time.Second // of which an offer is 1 s
	for held := time.Second; held < 1600*time.Millisecond; held += 10 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			store := memlocker.New()
			first, second := open(t, store), open(t, far{store.Peer()})
			turn := mustTake(t, first, s)
			time.AfterFunc(held, func() { mustEnd(t, turn) })
			got := mustTake(t, second, s)
			if time.Sleep(2 * time.Second); got.Err() != nil {
				t.Errorf("handed over after %v: %v", held, got.Err())
			}
			mustEnd(t, got)
			closed(t, first)
			closed(t, second)
		})
	}
}

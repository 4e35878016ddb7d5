package turns

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A tardy store gives no answer to its first Acquire, and carries it out late.
type tardy struct {
	*memlocker.Locker

	by    time.Duration
	given bool
}

func (l *tardy) Acquire(ctx context.Context, c *locker.Claim, try locker.Try) (locker.Answer, error) {
	if l.given {
		return l.Locker.Acquire(ctx, c, try)
	}
	l.given = true
	late := *c
	time.AfterFunc(l.by, func() { _, _ = l.Locker.Acquire(context.WithoutCancel(ctx), &late, try) })
	return locker.Answer{}, fmt.Errorf("%w: lost on its way", locker.ErrUnavailable)
}

// owned reports whether anybody owns stageKey.
func owned(t *testing.T, l locker.Locker) bool {
	t.Helper()
	synctest.Wait()
	s, err := l.Inspect(t.Context(), stageKey)
	if err != nil {
		t.Fatal(err)
	}
	return s.Owner != ""
}

// A request that was given up may arrive late (law 8). The key that it takes is
// freed a second after the first release, or at once by Close.
func TestWhatALateTryTakesIsFreed(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := memlocker.New()
			e, peer := open(t, &tardy{Locker: mem, by: 900 * time.Millisecond}), open(t, mem.Peer())
			if _, err := new(party).take(t.Context(), e, stageKey, once(0)); !errors.Is(err, locker.ErrUnavailable) {
				t.Fatal(err)
			}
			time.Sleep(950 * time.Millisecond)
			if !owned(t, peer.store) {
				t.Fatal("the late try did not take the key")
			}
			if closes {
				closed(t, e)
			} else {
				time.Sleep(100 * time.Millisecond)
			}
			if owned(t, peer.store) {
				t.Errorf("closes %v: the key is left to its TTL", closes)
			}
			closed(t, e)
			closed(t, peer)
		})
	}
}

// A release without an answer is repeated until it has one, or until Close.
func TestAClaimThatIsGivenUpInAnOutageIsFreedAfterIt(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := memlocker.New()
			e, peer := open(t, mem), open(t, mem.Peer())
			s := settings()
			s.TTL = time.Minute
			turn := mustTake(t, e, s)
			mend := mem.Break()
			if err := end(t.Context(), turn); !errors.Is(err, locker.ErrUnavailable) {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			mend()
			if !owned(t, peer.store) {
				t.Fatal("the key was freed in the outage")
			}
			if closes {
				closed(t, e)
			} else {
				time.Sleep(time.Second)
			}
			if owned(t, peer.store) {
				t.Errorf("closes %v: the key is left to its TTL", closes)
			}
			closed(t, e)
			closed(t, peer)
		})
	}
}

// Law 3.
func TestAGrantThatNobodyKnowsIsGivenBack(t *testing.T) {
	tell := map[string]func(w waker, owner string){
		"Granted":  func(w waker, owner string) { w.Granted(stageKey, owner, locker.Offer{Length: time.Second}) },
		"Orphaned": func(w waker, owner string) { w.Orphaned(stageKey, owner) },
	}
	for name, f := range tell {
		synctest.Test(t, func(t *testing.T) {
			mem := memlocker.New()
			e := open(t, mem)
			c := &locker.Claim{Key: stageKey, Owner: "nobody", TTL: time.Minute}
			if a, err := mem.Acquire(t.Context(), c, locker.Try{}); err != nil || !a.Acquired {
				t.Fatal(a, err)
			}
			f(waker{e}, "another")
			if !owned(t, mem) {
				t.Errorf("%s of another claim has freed the key", name)
			}
			f(waker{e}, c.Owner)
			if owned(t, mem) {
				t.Errorf("%s: the key is left to its TTL", name)
			}
			closed(t, e)
		})
	}
}

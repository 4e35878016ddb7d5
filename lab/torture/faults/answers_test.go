package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
)

// Answers that are lost, late, or caused by another party.

func TestFault01AnAcquireWhoseReplyIsLostSucceeds(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	g := on(t, n.Addr, guard.WithTTL(long), guard.WithFencing())
	warm(t, g)
	n.KillNextReply()
	start := time.Now()
	l := acquire(t, g, key)
	d := took(t, "the acquire", start, slow)
	if owner := n.direct.Get(t.Context(), lock(key)).Val(); owner == "" {
		t.Error("a lease without a key")
	}
	first := token(t, l)
	mustRelease(t, l)
	next := acquire(t, g, key)
	if second := token(t, next); second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	mustRelease(t, next)
	isFree(t, n.direct, key)
	keeps(t, "acquired at the second try, after %v, with one owner id", d)
}

func TestFault02AReplyAfterTheLeaseEndsGrantsNothing(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	g := on(t, n.Addr, guard.WithTTL(500*time.Millisecond), guard.WithMaxWait(0))
	warm(t, g)
	n.DelayReplies(700 * time.Millisecond)
	err := g.Do(t.Context(), key, func(context.Context) error { t.Error("ran without a key"); return nil })
	wantErr(t, err, guard.ErrUnavailable)
	n.DelayReplies(0)
	isFree(t, n.direct, key)
	keeps(t, "`ErrUnavailable`; the key is given up by owner id")
}

func TestFault03AnAcquireThatIsAbandonedLeavesNoKey(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	g := on(t, n.server.Addr, guard.WithTTL(long))
	warm(t, g)
	const tries = 40
	n.server.Stop()
	var wg sync.WaitGroup
	for i := range tries {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := g.Do(ctx, fmt.Sprint(key, i), nop); err == nil {
				t.Error("a stopped server gave a key")
			}
		})
	}
	wg.Wait()
	n.server.Cont()
	start := time.Now()
	empty := func() bool { return len(n.direct.Keys(t.Context(), "guard:{*").Val()) == 0 }
	testguard.Eventually(t, "all keys are gone", empty)
	d := time.Since(start)
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !empty() {
			start = time.Now() // a late one, which the second shot hits
			testguard.Eventually(t, "the late ones are gone, too", empty)
			d += time.Since(start)
		}
	}
	if d > 10*time.Second {
		t.Errorf("keys stayed for %v", d)
	}
	keeps(t, "0 of %d keys left %v after the server went on", tries, d.Round(time.Millisecond))
}

func TestFault16ALostReplyDirectionEndsTheLeaseInTime(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	const ttl = time.Second
	g := on(t, n.Addr, guard.WithTTL(ttl), guard.WithMaxWait(200*time.Millisecond))
	l := acquire(t, eager(g), key)
	began := time.Now()
	n.DropDown(true)
	lost(t, l, long)
	left := n.direct.PTTL(t.Context(), lock(key)).Val()
	if left <= 0 && steady(t, began) {
		t.Errorf("the context ended after the key: %v", left)
	}
	_, err := g.Acquire(t.Context(), "another") // executed, but its answer is lost
	wantErr(t, err, guard.ErrUnavailable)
	wantErr(t, l.Release(t.Context()), guard.ErrLeaseLost)
	n.DropDown(false)
	n.CutAll()
	testguard.Eventually(t, "both keys are free", func() bool {
		return !has(t, n.direct, key) && !has(t, n.direct, "another")
	})
	keeps(t, "its context ended %v before the key, and the key was released when the network was back", left)
}

func TestFault20AReleaseLeavesSomebodyElsesLockAlone(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	a := on(t, n.server.Addr, guard.WithTTL(200*time.Millisecond), guard.WithoutRenewal())
	b := on(t, n.server.Addr, guard.WithTTL(long))
	l := acquire(t, a, key)
	lost(t, l, long)
	theirs := acquire(t, b, key)
	value := n.direct.Get(t.Context(), lock(key)).Val()
	wantErr(t, l.Release(t.Context()), guard.ErrLeaseLost)
	if err := a.Close(t.Context()); err != nil { // does the cleanup that is left
		t.Fatal(err)
	}
	if n.direct.Get(t.Context(), lock(key)).Val() != value {
		t.Error("the key of another was touched")
	}
	mustRelease(t, theirs)
	keeps(t, "`ErrLeaseLost`; the key of the other stays")
}

func TestFault21ARenewalUnderWayDoesNotBringAReleasedKeyBack(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	var renewals renewed
	g := on(t, n.Addr, guard.WithTTL(6*time.Second), guard.WithObserver(&renewals))
	warm(t, g)
	const leases = 20
	var wg sync.WaitGroup
	var released atomic.Int64
	for i := range leases {
		l := acquire(t, g, fmt.Sprint(key, i))
		wg.Go(func() {
			// renewals are due at 1,800 to 2,200 ms
			time.Sleep(1700*time.Millisecond + time.Duration(i)*40*time.Millisecond)
			if err := l.Release(t.Context()); err != nil {
				if !errors.Is(err, guard.ErrUnavailable) { // the answer was too slow
					t.Errorf("Release: %v", err)
				}
				return
			}
			released.Add(1)
			end := time.Now().Add(500 * time.Millisecond)
			for ; time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if has(t, n.direct, l.Key()) {
					t.Errorf("%s is back", l.Key())
					return
				}
			}
		})
	}
	n.DelayReplies(50 * time.Millisecond)
	wg.Wait()
	n.DelayReplies(0)
	if renewals.Load() == 0 || released.Load() < leases/2 {
		t.Errorf("%d renewals, %d releases: too few to say", renewals.Load(), released.Load())
	}
	keeps(t, "%d releases around their renewals: no key came back", released.Load())
}

// renewed counts renewals that have worked.
type renewed struct {
	guard.NopObserver
	atomic.Int64
}

// Renewed is called with the result of each renewal.
func (r *renewed) Renewed(_ context.Context, _ guard.WaitInfo, result guard.RenewResult) {
	if result.Err == nil {
		r.Add(1)
	}
}

// await waits for two more renewals. It fails t if l is lost before.
func (r *renewed) await(t *testing.T, l *guard.Lease, beside string) {
	t.Helper()
	before := r.Load()
	testguard.Eventually(t, "two renewals beside "+beside, func() bool {
		if err := context.Cause(l.Context()); err != nil {
			t.Fatalf("%s cost a lease: %v", beside, err)
		}
		return r.Load() >= before+2
	})
}

func TestFault22AReleaseWhoseReplyIsLostIsNoErrorOfTheWork(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	g := on(t, n.Addr, guard.WithTTL(long))
	err := g.Do(t.Context(), key, func(context.Context) error {
		n.KillNextReply()
		return nil
	})
	if err != nil {
		t.Errorf("the work is done, but Do says %v", err)
	}
	isFree(t, n.direct, key)
	l := acquire(t, g, key)
	n.KillNextReply()
	if err := l.Release(t.Context()); err != nil && !errors.Is(err, guard.ErrUnavailable) {
		t.Errorf("Release: %v, want nothing worse than ErrUnavailable", err)
	}
	isFree(t, n.direct, key)
	keeps(t, "`Do` returns what the function returned, the key is free")
}

func TestFault37OfManyReleasesOneIsSent(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	g := on(t, n.Addr, guard.WithTTL(long))
	warm(t, g)
	l := acquire(t, g, key)
	n.Reset()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
	wg.Wait()
	if c := n.Commands(); c["EVALSHA"]+c["EVAL"] != 1 {
		t.Errorf("commands of 20 releases: %v", c)
	}
	wantErr(t, l.Err(), guard.ErrNoLease)
	_, err := l.FencingToken(t.Context())
	wantErr(t, err, guard.ErrLeaseLost)
	if c := n.Commands(); c["EVALSHA"]+c["EVAL"] != 1 {
		t.Errorf("a use after the release went to the server: %v", c)
	}
	keeps(t, "one request; all 20 get the same result, later uses are refused without one")
}

package redlock

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

func TestWhatIsDueEarlierIsAttendedToEarlier(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes)
		start := time.Now()
		var mu sync.Mutex // guards attended
		attended := make(map[string]time.Duration)
		l.waker = waking{wake: func(key string) {
			mu.Lock()
			defer mu.Unlock()
			attended[key] = time.Since(start)
		}}
		first, second := newClaim(time.Second), newClaim(time.Second)
		first.Key, second.Key = "first", "second"
		l.later(l.ballot(first, true), time.Hour)
		for _, in := range []time.Duration{2 * time.Hour, time.Minute, 3 * time.Hour} {
			l.later(l.ballot(second, true), in)
		}
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if attended["first"] != time.Hour || attended["second"] != time.Minute {
			t.Errorf("attended to after %v, want 1h and 1m", attended)
		}
	})
}

// waking is a guard that hears that it should try.
type waking struct {
	deaf

	wake func(key string)
}

func (w waking) Wake(key string) { w.wake(key) }

// The guard has gone, and so may have the connections.
func TestNothingIsAttendedToAfterClose(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes)
		l.waker = waking{wake: func(key string) { t.Errorf("the guard is woken for %q", key) }}
		l.later(l.ballot(newClaim(time.Second), true), time.Minute)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
	})
}

// A vote is given back if a request brings it after its claim was released.
// That is true also of a node that had answered the release.
func TestAVoteThatComesAfterTheReleaseIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes)
		c := newClaim(30 * time.Second)
		if !acquires(t, l, c) {
			t.Fatal("three nodes were no quorum")
		}
		synctest.Wait()
		b := l.ballot(c, false)
		b.mu.Lock()
		b.seats[2].unclear = true // as if an earlier request had no answer
		b.mu.Unlock()
		if _, err := l.Release(t.Context(), c, locker.End{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := nodes[2].Set("guard:{k}", c.Owner); err != nil { // now it arrives
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if nodes[2].Exists("guard:{k}") {
			t.Error("the vote is left to its TTL")
		}
	})
}

// A renewal that is answered after its claim was given up keeps nothing of it.
func TestWhatWasAbandonedStaysForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes)
		c := newClaim(30 * time.Second)
		if !acquires(t, l, c) {
			t.Fatal("three nodes were no quorum")
		}
		r := newRenewals(l, []*locker.Claim{c}, func(int, error) {})
		_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
		r.tell(0, nil) // the answers to it
		if l.known.find(c.Owner) != nil || l.known.owner("k") != nil {
			t.Error("it is known again")
		}
	})
}

// A slow node may vote for a claim that is over.
func TestAVoteThatASlowNodeCastsTooLateIsGivenBack(t *testing.T) {
	for _, end := range []locker.End{{}, {Queued: true}} {
		inBubble(t, func(t *testing.T, nodes []*fake) {
			t.Helper()
			l := openOn(t, nodes)
			c := newClaim(30 * time.Second)
			c.Fencing = true // by a script
			nodes[2].pause(100 * time.Millisecond)
			if !acquires(t, l, c) {
				t.Fatal("two nodes were no quorum")
			}
			_, _ = l.Release(t.Context(), c, end)
			time.Sleep(2 * time.Second)
			if nodes[2].Exists("guard:{k}") {
				t.Errorf("%+v: the vote is left to its TTL", end)
			}
		})
	}
}

package redlock

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// There are many keys and a node that is down now and then. Claims win, wait,
// give up and are lost. Nothing of them is kept.
func TestNothingIsKeptOfClaimsThatAreOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		a, b := openOn(t, nodes), openOn(t, nodes)
		var all []*locker.Claim
		for i := range 60 {
			nodes[2].setDown(i%3 == 0)
			key := strconv.Itoa(i)
			owner, other, last := newClaim(10*time.Second), newClaim(10*time.Second), newClaim(10*time.Second)
			owner.Key, other.Key, last.Key = key, key, key
			all = append(all, owner, other, last)
			if !acquires(t, a, owner) {
				t.Fatalf("%s: not acquired", key)
			}
			_, _ = b.Acquire(t.Context(), other, locker.Try{Wait: true})
			switch i % 4 {
			case 0:
				_, _ = a.Release(t.Context(), owner, locker.End{Next: last})
				_, _ = a.Release(t.Context(), last, locker.End{Queued: true})
				_, _ = b.Release(t.Context(), other, locker.End{Queued: true})
			case 1:
				_, _ = b.Release(t.Context(), other, locker.End{Queued: true})
				_, _ = a.Release(t.Context(), owner, locker.End{})
			case 2:
				for _, n := range nodes {
					n.Del("guard:{" + key + "}")
				}
				_ = renewed(t, a, owner)
				_, _ = a.Release(t.Context(), owner, locker.End{Queued: true})
				_, _ = b.Release(t.Context(), other, locker.End{Queued: true})
			case 3:
				_, _ = a.Release(t.Context(), owner, locker.End{Queued: true})
				_, _ = b.Acquire(t.Context(), other, locker.Try{Wait: true, Queued: true})
				_, _ = b.Release(t.Context(), other, locker.End{})
			}
		}
		nodes[2].setDown(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		for name, l := range map[string]*Locker{"a": a, "b": b} {
			if o, k := len(l.known.byOwner), len(l.known.byKey); o+k+len(l.picks) > 0 {
				t.Errorf("%s: %d claims by owner and %d by key, %d picks", name, o, k, len(l.picks))
			}
		}
		for _, c := range all {
			if b, ok := c.State.(*ballot); ok && !b.due.IsZero() {
				t.Errorf("%s: the claim is attended to later", c.Key)
			}
		}
		for i, n := range nodes {
			for _, k := range n.Keys() {
				t.Errorf("node %d keeps %s", i+1, k)
			}
		}
	})
}

func TestClaimsWhoseTimeIsOverAreSwept(t *testing.T) {
	r, past := newRegistry(), time.Now().Add(-time.Second)
	for i := range 2 * sweepLeast {
		r.add(&ballot{claim: locker.Claim{Owner: strconv.Itoa(i)}}, past)
	}
	if n := len(r.byOwner); n >= sweepLeast {
		t.Errorf("%d claims are kept", n)
	}
}

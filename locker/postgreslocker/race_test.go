package postgreslocker_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// silent is a Waker that knows every claim.
type silent struct{}

func (silent) Granted(string, string, locker.Offer) bool { return true }
func (silent) Wanted(string)                             {}
func (silent) Wake(string)                               {}
func (silent) WakeAll()                                  {}

func claim(key string) *locker.Claim {
	return &locker.Claim{Key: key, Owner: rand.Text()[:locker.OwnerLen], TTL: 10 * time.Second}
}

// A claim that is queued in the moment of a release is there after it. Without
// the row lock of the release, the update overwrites it.
func TestAClaimQueuedInTheMomentOfAReleaseStays(t *testing.T) {
	a, b := pair(t)
	for _, l := range []locker.Locker{a, b} {
		if err := l.Open(silent{}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close(context.WithoutCancel(t.Context())) }()
	}
	for range 300 {
		owner, first, second := claim("k"), claim("k"), claim("k")
		if x, err := a.Acquire(t.Context(), owner, locker.Try{}); err != nil || !x.Acquired {
			t.Fatal(x, err)
		}
		if x, err := b.Acquire(t.Context(), first, locker.Try{Wait: true}); err != nil || !x.Queued {
			t.Fatal(x, err)
		}
		var release sync.WaitGroup
		release.Go(func() { _, _ = a.Release(t.Context(), owner, nil) })
		x, err := b.Acquire(t.Context(), second, locker.Try{Wait: true})
		release.Wait()
		if err != nil || !x.Queued {
			t.Fatalf("the second: %+v, %v", x, err)
		}
		x, err = b.Acquire(t.Context(), second, locker.Try{Wait: true, Queued: true})
		if err != nil || !x.Queued {
			t.Fatalf("the second left the queue with the release: %+v, %v (law 2)", x, err)
		}
		for _, c := range []*locker.Claim{second, first} {
			if _, err := b.Release(t.Context(), c, nil); err != nil && c == first {
				t.Fatal(err)
			}
		}
	}
}

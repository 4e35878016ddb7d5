package postgreslocker_test

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/rowtest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// Only the first claim that waits for a key sends a message, so the one who
// owns the key must get it. Planted: the one who owned it as c knew it.
func TestANewOwnerHearsOfAClaimThatKnewTheOneBefore(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	c := postgreslocker.New(pool(t), postgreslocker.WithTable(tableOf(b)))
	w := told{wanted: make(chan string, 10)}
	open(t, a, silent{})
	open(t, b, w)
	open(t, c, silent{})
	for _, l := range []*postgreslocker.Locker{a, b, c} {
		acquire(t, l, claim("another"), locker.Try{})
		testguard.Eventually(t, "it hears", l.Hears)
	}
	first, second := claim("k"), claim("k")
	acquire(t, a, first, locker.Try{})
	acquire(t, c, claim("k"), locker.Try{}) // c learns that a owns the key
	acquire(t, b, second, locker.Try{Wait: true})
	if r, err := a.Release(t.Context(), first, locker.End{}); err != nil || !r.Handed {
		t.Fatalf("%+v, %v", r, err)
	}
	if x := acquire(t, b, second, locker.Try{Wait: true, Queued: true}); !x.Acquired {
		t.Fatalf("%+v, want it acquired", x)
	}
	if x := acquire(t, c, claim("k"), locker.Try{Wait: true}); !x.Queued {
		t.Fatalf("%+v, want it queued", x)
	}
	select {
	case <-w.wanted:
	case <-time.After(testguard.Patience):
		t.Error("the owner does not learn that somebody waits")
	}
}

// PostgreSQL's messages bring the tickets that stand beside a row.
func TestALatecomerGetsTheKey(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	table := postgreslocker.WithTable(tableOf(a))
	rowtest.LatecomersGetTheKey(t, func() locker.Locker { return postgreslocker.New(pool(t), table) })
}

package postgreslocker_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// told is a Waker that passes on for which keys others wait.
type told struct {
	silent

	wanted chan string
}

func (w told) Wanted(key string) { w.wanted <- key }

// open opens l for a test.
func open(t *testing.T, l *postgreslocker.Locker, w locker.Waker) {
	t.Helper()
	if err := l.Open(w); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testguard.Patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

func acquire(t *testing.T, l *postgreslocker.Locker, c *locker.Claim, try locker.Try) locker.Answer {
	t.Helper()
	x, err := l.Acquire(t.Context(), c, try)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// isTold has b wait for a key that a process owns, which w must hear of.
func isTold(t *testing.T, b *postgreslocker.Locker, w told, key string) {
	t.Helper()
	c := claim(key)
	if x := acquire(t, b, c, locker.Try{Wait: true}); !x.Queued {
		t.Fatalf("%+v, want it queued", x)
	}
	end := time.After(testguard.Patience)
	for {
		select {
		case <-w.wanted:
			_, _ = b.Release(t.Context(), c, locker.End{})
			return
		case <-time.After(400 * time.Millisecond): // it looks, as a guard does
			acquire(t, b, c, locker.Try{Wait: true, Queued: true})
		case <-end:
			t.Fatal("the owner does not learn that somebody waits")
		}
	}
}

// pairThrough is pair with a pipe through which a, and only a, hears.
func pairThrough(t *testing.T) (a, b *postgreslocker.Locker, faults *way, pipe *faultpipe.Pipe) {
	t.Helper()
	faults = &way{}
	pipe, dsn := piped(t, faults)
	_, b = pair(t)
	a = postgreslocker.New(pool(t), postgreslocker.WithTable(tableOf(b)), postgreslocker.WithListen(dsn))
	return a, b, faults, pipe
}

func TestAnOwnerLearnsOfWaitersWhenItHearsNoMore(t *testing.T) {
	t.Parallel()
	a, b, faults, pipe := pairThrough(t)
	w := told{wanted: make(chan string, 10)}
	open(t, a, w)
	open(t, b, silent{})
	acquire(t, a, claim("first"), locker.Try{})
	testguard.Eventually(t, "it hears", a.Hears)
	acquire(t, a, claim("k"), locker.Try{})
	faults.gone.Store(true)
	pipe.Cut(nil)
	testguard.Eventually(t, "it does not hear any more", func() bool { return !a.Hears() })
	isTold(t, b, w, "k")
}

// A connection that is cut off without a word leaves a session in the server
// for as long as that does not notice.
func TestALockerHearsAgainWhileItsOldSessionStays(t *testing.T) {
	t.Parallel()
	a, _, faults, _ := pairThrough(t)
	open(t, a, silent{})
	acquire(t, a, claim("k"), locker.Try{})
	testguard.Eventually(t, "it hears", a.Hears)
	faults.still.Store(true)
	testguard.Eventually(t, "it notices", func() bool { return !a.Hears() })
	faults.still.Store(false)
	testguard.Eventually(t, "it hears again", a.Hears)
}

func TestCloseDoesNotWaitForEachClaimOfAServerThatIsAway(t *testing.T) {
	t.Parallel()
	var faults way
	pipe, dsn := piped(t, &faults)
	_, b := pair(t)
	a := postgreslocker.New(poolTo(t, dsn), postgreslocker.WithTable(tableOf(b)))
	open(t, a, silent{})
	open(t, b, silent{})
	acquire(t, b, claim("k"), locker.Try{})
	for range 60 {
		if x := acquire(t, a, claim("k"), locker.Try{Wait: true}); !x.Queued {
			t.Fatalf("%+v, want it queued", x)
		}
	}
	faults.gone.Store(true)
	pipe.Cut(func(faultpipe.Link) bool { return true })
} // the claims take less than testguard.Patience together

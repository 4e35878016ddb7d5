// Package rowtest tests a store of package rowlocker with more than the two
// processes of lockertest. In a store without a clock, each process measures a
// time from its first sight of a row. The times in a row must also end for a
// process that has never seen the row before.
package rowtest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
)

// Run runs all tests. newStore returns a function that makes lockers of a new
// store. Each locker is a process that has never looked before.
func Run(t *testing.T, newStore func(t *testing.T) (process func() locker.Locker)) {
	t.Helper()
	t.Run("a mark does not hold a key that nobody renews", func(t *testing.T) {
		t.Parallel() // it mostly waits
		marksHoldNoKey(t, newStore(t))
	})
	for name, value := range map[string]string{"short": "r", "in a row of its own": strings.Repeat("r", 1000)} {
		t.Run("a record ends though others write its row, "+name, func(t *testing.T) {
			t.Parallel()
			recordsEnd(t, newStore(t), value)
		})
	}
	t.Run("a claim that comes while others pass the key on gets it", func(t *testing.T) {
		t.Parallel()
		LatecomersGetTheKey(t, newStore(t))
	})
	t.Run("an owner hears of a claim that knew the one before", func(t *testing.T) {
		t.Parallel()
		OwnersHear(t, newStore(t))
	})
}

// OwnersHear has a claim join the queue that mistakes the previous owner for
// the present one, so that the message goes there. The present one must hear of
// it by the time the claim has looked, or it would keep the key for its own
// calls.
func OwnersHear(t *testing.T, process func() locker.Locker) {
	t.Helper()
	hears := &ears{}
	b := process()
	if err := b.Open(hears); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close(context.WithoutCancel(t.Context())) }()
	in(t, process(), func(a locker.Locker) {
		in(t, process(), func(late locker.Locker) {
			own, next, comes := claim(time.Minute, false), claim(time.Minute, false), claim(time.Minute, false)
			if !acquires(t, a, own) || acquires(t, late, comes) { // which knows the row from now on
				t.Fatal("the first to come does not own the key alone")
			}
			waits(t, b, next, locker.Try{})
			if r, err := a.Release(t.Context(), own, locker.End{}); err != nil || !r.Handed {
				t.Fatalf("%+v, %v", r, err)
			}
			if !waits(t, b, next, locker.Try{Queued: true}).Acquired {
				t.Fatal("the key was not handed over")
			}
			hears.wanted.Store(false)
			waits(t, late, comes, locker.Try{})
			testguard.Eventually(t, "the owner hears", func() bool {
				waits(t, late, comes, locker.Try{Queued: true})
				return hears.wanted.Load()
			})
		})
	})
}

// ears are a Waker that notes that others wait for a key.
type ears struct {
	lockerkit.Deaf

	wanted atomic.Bool
}

func (e *ears) Wanted(string) { e.wanted.Store(true) }

// waits lets c wait for its key, which it may own already. If c has left the
// queue, because the machine stood still, c joins it again.
func waits(t *testing.T, l locker.Locker, c *locker.Claim, try locker.Try) locker.Answer {
	t.Helper()
	try.Wait = true
	a, err := l.Acquire(t.Context(), c, try)
	if err == nil && !a.Acquired && !a.Queued {
		try.Queued = false
		a, err = l.Acquire(t.Context(), c, try)
	}
	if err != nil || !a.Acquired && !a.Queued {
		t.Fatalf("%+v, %v", a, err)
	}
	return a
}

// LatecomersGetTheKey has two processes hand a key to and fro, each with a
// claim that waits next. A third knows the row as it was before the first
// hand-over when its claim joins the queue. So no owner of the key hears of it.
func LatecomersGetTheKey(t *testing.T, process func() locker.Locker) {
	t.Helper()
	in(t, process(), func(a locker.Locker) {
		in(t, process(), func(b locker.Locker) {
			in(t, process(), func(late locker.Locker) {
				joinsLate(t, [2]locker.Locker{a, b}, late)
			})
		})
	})
}

func joinsLate(t *testing.T, both [2]locker.Locker, late locker.Locker) {
	t.Helper()
	own, next, comes := claim(time.Minute, false), claim(time.Minute, false), claim(time.Minute, false)
	pass := func(turn int) (again *locker.Claim) {
		t.Helper()
		again = claim(time.Minute, false)
		r, err := both[turn%2].Release(t.Context(), own, locker.End{Next: again})
		if err != nil || !r.Handed || !r.Queued {
			t.Fatalf("turn %d: %+v, %v", turn, r, err)
		}
		return again
	}
	waits(t, both[0], own, locker.Try{})
	waits(t, both[1], next, locker.Try{})
	if acquires(t, late, comes) { // it knows the row from now on
		t.Fatal("two own the key")
	}
	own, next = next, pass(0)
	waits(t, late, comes, locker.Try{})
	for turn := 1; turn < 100; turn++ {
		waits(t, both[turn%2], own, locker.Try{Queued: true})
		own, next = next, pass(turn)
		if waits(t, late, comes, locker.Try{Queued: true}).Acquired {
			return
		}
	}
	t.Error("a claim that joined the queue waits while the key is handed over 99 times")
}

// in opens l for do.
func in(t *testing.T, l locker.Locker, do func(l locker.Locker)) {
	t.Helper()
	if err := l.Open(lockerkit.Deaf{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.WithoutCancel(t.Context())) }()
	do(l)
}

func claim(ttl time.Duration, recall bool) *locker.Claim {
	return &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: ttl, Limit: 1, Recall: recall}
}

// acquires reports whether c owns its key now, and does not find a record.
func acquires(t *testing.T, l locker.Locker, c *locker.Claim) bool {
	t.Helper()
	a, err := l.Acquire(t.Context(), c, locker.Try{})
	if err != nil {
		t.Fatal(err)
	}
	return a.Acquired
}

func inspect(t *testing.T, l locker.Locker) locker.KeyState {
	t.Helper()
	s, err := l.Inspect(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// marksHoldNoKey leaves a mark, whose row stays for long, under a lease that
// nobody renews.
func marksHoldNoKey(t *testing.T, process func() locker.Locker) {
	t.Helper()
	in(t, process(), func(l locker.Locker) { // it lives, as a janitor does
		c := claim(10*time.Second, true) // Begin comes before its end
		if !acquires(t, l, c) {
			t.Fatal("the key is not free")
		}
		if _, err := l.Begin(t.Context(), c, locker.Record{Value: "mark", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		testguard.Eventually(t, "the mark is alone", func() (alone bool) {
			time.Sleep(100 * time.Millisecond)
			in(t, process(), func(l locker.Locker) {
				s := inspect(t, l)
				alone = !s.Held && s.Record.Size == len("mark")
			})
			return alone
		})
	})
}

// recordsEnd has processes own and release a key beside its record until it
// ends.
func recordsEnd(t *testing.T, process func() locker.Locker, value string) {
	t.Helper()
	in(t, process(), func(l locker.Locker) { // it lives, as a janitor does
		c := claim(time.Minute, false)
		acquires(t, l, c)
		end := locker.End{Record: locker.Record{Value: value, TTL: 3 * time.Second}}
		if _, err := l.Release(t.Context(), c, end); err != nil {
			t.Fatal(err)
		}
		if s := inspect(t, l); s.Record.Size != len(value) {
			t.Fatalf("%+v, want the record", s)
		}
		testguard.Eventually(t, "the record ends", func() bool {
			time.Sleep(100 * time.Millisecond)
			return foundOver(t, process())
		})
	})
}

// foundOver lets a process own the key, and reports whether it finds no record
// then.
func foundOver(t *testing.T, l locker.Locker) (over bool) {
	t.Helper()
	in(t, l, func(l locker.Locker) {
		for _, recall := range []bool{false, true} {
			c := claim(time.Minute, recall)
			if over = acquires(t, l, c); !over {
				return
			}
			if _, err := l.Release(t.Context(), c, locker.End{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	return over
}

package memlocker

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// waiter is a Waker that records its calls.
type waiter struct {
	lockerkit.Deaf

	name string
	told *[]string
}

func (w *waiter) Granted(key, owner string, o locker.Offer) {
	*w.told = append(*w.told, fmt.Sprintf("%s granted %s as %s, %d behind", w.name, key, owner, o.Waiting))
}

func (w *waiter) Wanted(key string) { *w.told = append(*w.told, w.name+" wanted "+key) }

// world is a set of peers on one store.
type world struct {
	*testing.T
	ls   []*Locker
	ws   []*waiter
	told []string
}

// peers opens a locker for each name.
func peers(t *testing.T, names ...string) *world {
	t.Helper()
	w := &world{T: t}
	first := New()
	for i, name := range names {
		l := first
		if i > 0 {
			l = first.Peer()
		}
		heard := &waiter{name: name, told: &w.told}
		if err := l.Open(heard); err != nil {
			t.Fatal(err)
		}
		w.ls, w.ws = append(w.ls, l), append(w.ws, heard)
	}
	return w
}

// claim makes a claim of TTL 10 s.
func claim(owner, key string) *locker.Claim {
	return &locker.Claim{Key: key, Owner: owner, TTL: 10 * time.Second}
}

func (w *world) acquire(i int, c *locker.Claim) locker.Answer {
	w.Helper()
	a, err := w.ls[i].Acquire(w.Context(), c, locker.Try{})
	if err != nil || !a.Acquired {
		w.Fatalf("Acquire: %+v, %v, want the key", a, err)
	}
	return a
}

func (w *world) try(i int, c *locker.Claim, t locker.Try) locker.Answer {
	w.Helper()
	a, err := w.ls[i].Acquire(w.Context(), c, t)
	if err != nil || a.Acquired {
		w.Fatalf("Acquire: %+v, %v, want a refusal", a, err)
	}
	return a
}

// wait queues c and returns its place.
func (w *world) wait(i int, c *locker.Claim) locker.Place {
	w.Helper()
	a := w.try(i, c, locker.Try{Wait: true})
	if !a.Queued || a.Place == 0 {
		w.Fatalf("Acquire: %+v, want a place in the queue", a)
	}
	return a.Place
}

func (w *world) release(i int, c, next *locker.Claim, waiting int) locker.Released {
	w.Helper()
	r, err := w.ls[i].Release(w.Context(), c, locker.End{Next: next})
	if err != nil || r.Waiting != waiting || r.Handed != (waiting > 0) || r.Queued != (waiting > 0 && next != nil) {
		w.Fatalf("Release: %+v, %v, want %d waiting", r, err, waiting)
	}
	return r
}

func (w *world) renew(i int, c *locker.Claim) (err error) {
	w.ls[i].Renew(w.Context(), []*locker.Claim{c}, func(_ int, e error) { err = e })
	return err
}

// wantTold checks the calls of the Wakers since the last check.
func (w *world) wantTold(want ...string) {
	w.Helper()
	if fmt.Sprint(w.told) != fmt.Sprint(want) {
		w.Fatalf("told: %q, want %q", w.told, want)
	}
	w.told = nil
}

// hears is a Waker that calls f for a grant and for a Wanted.
type hears struct {
	lockerkit.Deaf

	f func()
}

func (h hears) Granted(string, string, locker.Offer) { h.f() }
func (h hears) Wanted(string)                        { h.f() }

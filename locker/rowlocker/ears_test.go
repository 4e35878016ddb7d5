package rowlocker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// earful is a guard that notes what it is told.
type earful struct {
	hasty

	mu      sync.Mutex
	revoked []string
	all     int
	wanted  int
}

func (e *earful) Wanted(string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted++
}

func (e *earful) waits() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted
}

func (*earful) Granted(string, string, locker.Offer) {}

func (e *earful) WakeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all++
}

func (e *earful) Revoked(key, owner string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.revoked = append(e.revoked, key+" "+owner)
}

func (e *earful) woken() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all
}

func (e *earful) told() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.revoked)
}

// peers opens lockers on one store in memory, each with a guard that notes what
// it is told.
func peers(t *testing.T, n int, open func(m *memRows) *Locker) (ls []*Locker, es []*earful) {
	t.Helper()
	w := newWorld()
	for range n {
		l, e := open(&memRows{w: w}), &earful{}
		if err := l.Open(e); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close(t.Context()) })
		l.Listens() // from now on
		ls, es = append(ls, l), append(es, e)
	}
	synctest.Wait()
	return ls, es
}

func wants(owner byte, limit int) *locker.Claim {
	id := slices.Repeat([]byte{owner}, locker.OwnerLen)
	return &locker.Claim{Key: "k", Owner: string(id), TTL: 10 * time.Second, Limit: limit}
}

// take makes c the owner of its key.
func take(t *testing.T, l *Locker, c *locker.Claim) {
	t.Helper()
	if a, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil || !a.Acquired {
		t.Fatalf("Acquire: %+v, %v", a, err)
	}
}

// The row of a key that is free is deleted in one kind of stores, and stays in
// the other.
func TestAHolderHearsAtOnceThatItsKeyWasReleasedByForce(t *testing.T) {
	for _, clock := range []bool{true, false} {
		for _, by := range []int{0, 1} {
			for _, limit := range []int{1, 2, locker.NoLimit} {
				synctest.Test(t, func(t *testing.T) {
					ls, es := peers(t, 2, func(m *memRows) *Locker {
						m.clock = clock
						return New(memTickets{memPulse{memEars{m}}})
					})
					a, b := wants('a', limit), wants('b', limit)
					take(t, ls[0], a)
					if limit > 1 {
						take(t, ls[1], b)
					}
					if err := ls[by].ForceRelease(t.Context(), a.Key, a.Owner); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if got := es[0].told(); !slices.Equal(got, []string{"k " + a.Owner}) || len(es[1].told()) > 0 {
						t.Errorf("clock %v, limit %d, by %d: the guards hear %q and %q", clock, limit, by, got,
							es[1].told())
					}
				})
			}
		}
	}
}

// memHollow hears of a deleted row with an empty Value, as of a message of
// NATS.
type memHollow struct{ memEars }

func (m memHollow) Listen(ctx context.Context, instance string, hear func(Row), awake func()) {
	m.memEars.Listen(ctx, instance, func(r Row) {
		if r.Value == nil && r.Version > 0 {
			r.Value = []byte{}
		}
		hear(r)
	}, awake)
}

func TestAnEmptyMessageTellsOfADeletedRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, es := peers(t, 2, func(m *memRows) *Locker { return New(memHollow{memEars{m}}) })
		a := wants('a', 1)
		take(t, ls[0], a)
		if err := ls[1].ForceRelease(t.Context(), a.Key, a.Owner); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := es[0].told(); !slices.Equal(got, []string{"k " + a.Owner}) {
			t.Errorf("the guard hears %q", got)
		}
	})
}

// Nobody tells an owner again that others wait. Planted: the locker does not
// look for what it has missed.
func TestAnOwnerLearnsOfAWaiterWhoseMessageItHasMissed(t *testing.T) {
	for _, kind := range []func(m *memRows) *Locker{
		func(m *memRows) *Locker { return New(memEars{m}) },
		func(m *memRows) *Locker { return New(memTickets{memPulse{memEars{m}}}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var w *world
			ls, es := peers(t, 2, func(m *memRows) *Locker {
				w = m.w
				return kind(m)
			})
			take(t, ls[0], wants('a', 1))
			w.breaks(ls[0].instance)
			x, err := ls[1].Acquire(t.Context(), wants('b', 1), locker.Try{Wait: true})
			if err != nil || !x.Queued {
				t.Fatalf("%+v, %v, want it queued", x, err)
			}
			time.Sleep(2 * earPause)
			if es[0].waits() == 0 {
				t.Error("the owner does not learn that somebody waits")
			}
		})
	}
}

// slow begins to hear a moment late.
type slow struct{ memEars }

func (s slow) Listen(ctx context.Context, instance string, hear func(Row), awake func()) {
	time.Sleep(300 * time.Millisecond)
	s.memEars.Listen(ctx, instance, hear, awake)
}

// Planted: the locker looks for what it has missed only when it hears again.
func TestAnOwnerLearnsOfAWaiterThatCameBeforeItCouldHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, es := peers(t, 2, func(m *memRows) *Locker { return New(slow{memEars{m}}) })
		take(t, ls[0], wants('a', 1))
		x, err := ls[1].Acquire(t.Context(), wants('b', 1), locker.Try{Wait: true})
		if err != nil || !x.Queued {
			t.Fatalf("%+v, %v, want it queued", x, err)
		}
		time.Sleep(400 * time.Millisecond)
		if es[0].waits() == 0 {
			t.Error("the owner does not learn that somebody waits")
		}
	})
}

func TestTheGuardIsWokenWhenMessagesBreakOffAndComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, es := peers(t, 1, func(m *memRows) *Locker { return New(memEars{m}) })
		l := ls[0]
		if !l.Listens() || es[0].woken() != 1 {
			t.Fatalf("Listens %v, woken %d times", l.Listens(), es[0].woken())
		}
		w := l.rows.(memEars).w
		w.breaks(l.instance)
		synctest.Wait()
		if l.Listens() || es[0].woken() != 2 {
			t.Errorf("broken: Listens %v, woken %d times", l.Listens(), es[0].woken())
		}
		time.Sleep(time.Second)
		if !l.Listens() || es[0].woken() != 3 {
			t.Errorf("again: Listens %v, woken %d times", l.Listens(), es[0].woken())
		}
	})
}

// late hears each message a moment late.
type late struct{ memEars }

func (l late) Listen(ctx context.Context, instance string, hear func(Row), awake func()) {
	l.memEars.Listen(ctx, instance, func(r Row) { time.Sleep(100 * time.Millisecond); hear(r) }, awake)
}

// grants counts the grants that a guard is told of.
type grants struct {
	earful

	n atomic.Int64
}

func (g *grants) Granted(string, string, locker.Offer) { g.n.Add(1) }

// A process without a clock of the store takes a claim out that was not seen
// for QueueLife. The claim may be handed its key just before. If the process
// stands still then, it hears of that afterwards, when the key is given back.
func TestAGrantThatComesWhenItsClaimHasEndedIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		g := &grants{}
		holder, waiter := New(memEars{&memRows{w: w}}), New(late{memEars{&memRows{w: w}}})
		for l, waker := range map[*Locker]locker.Waker{holder: &earful{}, waiter: g} {
			if err := l.Open(waker); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close(t.Context()) })
			l.Listens() // from now on
		}
		synctest.Wait()
		a, b := wants('a', 1), wants('b', 1)
		take(t, holder, a)
		if x, err := waiter.Acquire(t.Context(), b, locker.Try{Wait: true}); err != nil || !x.Queued {
			t.Fatalf("%+v, %v, want it queued", x, err)
		}
		time.Sleep(locker.QueueLife - 10*time.Millisecond)
		if r, err := holder.Release(t.Context(), a, locker.End{}); err != nil || !r.Handed {
			t.Fatalf("%+v, %v, want it handed over", r, err)
		}
		time.Sleep(time.Second)
		if n := g.n.Load(); n > 0 {
			t.Errorf("told of %d grants of a claim that has ended", n)
		}
		take(t, holder, wants('c', 1))
	})
}

// wanted counts what a guard hears of others that wait.
type wanted struct {
	earful

	n atomic.Int64
}

func (w *wanted) Wanted(string) { w.n.Add(1) }

// A process remembers so many rows, and none after an error.
func TestAHolderHearsOfATicketBesideARowThatItHasForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, guard := newWorld(), &wanted{}
		holder := New(memTickets{memPulse{memEars{&memRows{w: w}}}})
		other := New(memTickets{memPulse{memEars{&memRows{w: w}}}})
		for l, waker := range map[*Locker]locker.Waker{holder: guard, other: &earful{}} {
			if err := l.Open(waker); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close(t.Context()) })
			l.Listens() // from now on
		}
		synctest.Wait()
		a := wants('a', 1)
		take(t, holder, a)
		holder.desk.memory.forget("k")
		if x, err := other.Acquire(t.Context(), wants('b', 1), locker.Try{Wait: true}); err != nil || !x.Queued {
			t.Fatalf("%+v, %v", x, err)
		}
		synctest.Wait()
		if n := guard.n.Load(); n != 1 {
			t.Errorf("the guard hears %d times that others wait, want once", n)
		}
		if r, err := holder.Release(t.Context(), a, locker.End{}); err != nil || !r.Handed {
			t.Errorf("%+v, %v, want it handed over", r, err)
		}
	})
}

// The guard may use a key that was handed over while its locker closes.
func TestCloseLeavesAKeyThatWasHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, _ := peers(t, 2, func(m *memRows) *Locker { return New(memTickets{memPulse{memEars{m}}}) })
		a, b := wants('a', 1), wants('b', 1)
		take(t, ls[0], a)
		if x, err := ls[1].Acquire(t.Context(), b, locker.Try{Wait: true}); err != nil || !x.Queued {
			t.Fatalf("%+v, %v", x, err)
		}
		if r, err := ls[0].Release(t.Context(), a, locker.End{}); err != nil || !r.Handed {
			t.Fatalf("%+v, %v", r, err)
		}
		synctest.Wait()
		if err := ls[1].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, err := ls[0].Inspect(t.Context(), "k"); err != nil || s.Owner != b.Owner {
			t.Errorf("the owner is %q, %v, want that of the closed locker", s.Owner, err)
		}
	})
}

// The message of the claim that waits has gone to the owner before. Planted:
// what the answer of the new owner says of the claims behind it is dropped.
func TestANewOwnerLearnsOfAClaimThatHasToldTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, es := peers(t, 3, func(m *memRows) *Locker {
			m.clock = true
			return New(memTickets{memPulse{memEars{m}}})
		})
		take(t, ls[0], wants('a', 1))
		c := wants('c', 1)
		for at := range c.TTL / locker.LookEvery {
			x, err := ls[2].Acquire(t.Context(), c, locker.Try{Wait: true, Queued: at > 0})
			if err != nil || !x.Queued {
				t.Fatalf("%+v, %v, want it queued", x, err)
			}
			time.Sleep(locker.LookEvery)
		}
		time.Sleep(time.Millisecond)
		take(t, ls[1], wants('b', 1))
		if synctest.Wait(); es[1].waits() == 0 {
			t.Error("the owner does not learn that somebody waits")
		}
	})
}

// A hand-over costs as much as many turns of those who wait here. Planted: the
// answer tells the guard though the next look does.
func TestWithoutMessagesTheLookoutTellsOfClaimsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, es := peers(t, 2, func(m *memRows) *Locker {
			m.clock = true
			return New(m)
		})
		a := wants('a', 1)
		take(t, ls[0], a)
		x, err := ls[1].Acquire(t.Context(), wants('c', 1), locker.Try{Wait: true})
		if err != nil || !x.Queued {
			t.Fatalf("%+v, %v, want it queued", x, err)
		}
		ls[0].Renew(t.Context(), []*locker.Claim{a}, func(_ int, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		if es[0].waits() != 0 {
			t.Error("the owner learns by its renewal that somebody waits")
		}
		time.Sleep(2 * pollIdle)
		if es[0].waits() != 1 {
			t.Error("the owner does not learn by a look that somebody waits")
		}
	})
}

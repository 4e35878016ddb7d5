package memlocker

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/lockertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPair(*testing.T) (a, b guard.Locker) {
	l := New()
	return l, l.Peer()
}

func TestConformance(t *testing.T)              { lockertest.Run(t, newPair) }
func TestConformanceInVirtualTime(t *testing.T) { lockertest.RunVirtual(t, newPair) }

// waiter is a Waker that notes what it is woken for, and may have given up waiting.
type waiter struct {
	name  string
	gone  bool
	woken *[]string

	wanted []string
}

func (w *waiter) Wake(key string, _ int) bool {
	*w.woken = append(*w.woken, w.name+" "+key)
	return !w.gone
}

func (w *waiter) Wanted(key string) { w.wanted = append(w.wanted, key) }
func (w *waiter) WakeAll()          {}

// peers opens a locker with a waiter for each name, all on one store.
func peers(t *testing.T, names ...string) (ls []*Locker, ws []*waiter, woken *[]string) {
	t.Helper()
	woken = new([]string)
	first := New()
	for i, name := range names {
		l := first
		if i > 0 {
			l = first.Peer()
		}
		w := &waiter{name: name, woken: woken}
		if err := l.Open(w); err != nil {
			t.Fatal(err)
		}
		ls, ws = append(ls, l), append(ws, w)
	}
	return ls, ws, woken
}

// claim makes a claim of TTL 10 s that waits.
func claim(owner, key string) *guard.Claim {
	return &guard.Claim{Key: key, Owner: owner, TTL: 10 * time.Second, Waits: true}
}

func acquire(t *testing.T, l *Locker, c *guard.Claim) {
	t.Helper()
	if _, err := l.Acquire(t.Context(), c); err != nil {
		t.Fatalf("Acquire: %v", err)
	}
}

func wait(t *testing.T, l *Locker, c *guard.Claim) {
	t.Helper()
	if _, err := l.Acquire(t.Context(), c); !errors.Is(err, guard.ErrNotAcquired) {
		t.Fatalf("Acquire: %v, want ErrNotAcquired", err)
	}
}

func release(t *testing.T, l *Locker, c *guard.Claim, waiting int) {
	t.Helper()
	c.Waits = false // nobody else of this instance
	want := guard.Freed{Waiting: waiting, Woken: waiting > 0}
	if f, err := l.Release(t.Context(), c); err != nil || f != want {
		t.Fatalf("Release: %+v, %v, want %+v", f, err, want)
	}
}

func wantWoken(t *testing.T, got *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*got, want) {
		t.Fatalf("woken: %q, want %q", *got, want)
	}
}

func TestReleaseWakesInOrderOfFirstWait(t *testing.T) {
	ls, _, woken := peers(t, "a", "b", "c", "d")
	a, b, c, d := claim("a", "k"), claim("b", "k"), claim("c", "k"), claim("d", "k")
	acquire(t, ls[0], a)
	wait(t, ls[1], b)
	wait(t, ls[2], c)
	wait(t, ls[3], d)
	wait(t, ls[1], b) // looking again costs no place
	release(t, ls[0], a, 3)
	wantWoken(t, woken, "b k")

	acquire(t, ls[3], d) // overtakes
	wait(t, ls[1], b)    // beaten, but not sent to the back
	release(t, ls[3], d, 2)
	wantWoken(t, woken, "b k", "b k")

	acquire(t, ls[1], b)
	release(t, ls[1], b, 1)
	wantWoken(t, woken, "b k", "b k", "c k")
}

func TestReleasePassesOverInstancesThatNoLongerWait(t *testing.T) {
	ls, ws, woken := peers(t, "a", "gone", "closed", "c")
	a := claim("a", "k")
	acquire(t, ls[0], a)
	for i, l := range ls[1:] {
		wait(t, l, claim("w"+strconv.Itoa(i), "k"))
	}
	ws[1].gone = true
	if err := ls[2].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	release(t, ls[0], a, 1)
	wantWoken(t, woken, "gone k", "c k")
}

func TestNoWaiterIsWokenForAnotherKeyOrByALostLease(t *testing.T) {
	ls, _, woken := peers(t, "a", "b")
	a, other := claim("a", "k"), claim("a", "other")
	acquire(t, ls[0], a)
	acquire(t, ls[0], other)
	wait(t, ls[1], claim("b", "k"))
	release(t, ls[0], other, 0)
	if _, err := ls[0].Release(t.Context(), claim("stranger", "k")); !errors.Is(err, guard.ErrLeaseLost) {
		t.Fatalf("Release by a stranger: %v, want ErrLeaseLost", err)
	}
	wantWoken(t, woken)
}

// A Waker may call the locker: no lock is held while it runs.
func TestWakerMayTryAtOnce(t *testing.T) {
	l := New()
	peer := l.Peer()
	if err := l.Open(wakeFunc(nil)); err != nil {
		t.Fatal(err)
	}
	next := claim("b", "k")
	var got error
	if err := peer.Open(wakeFunc(func() { _, got = peer.Acquire(t.Context(), next) })); err != nil {
		t.Fatal(err)
	}
	c := claim("a", "k")
	acquire(t, l, c)
	wait(t, peer, next)
	release(t, l, c, 1)
	if got != nil {
		t.Fatalf("Acquire from Wake: %v", got)
	}
	release(t, peer, next, 0)
}

type wakeFunc func()

func (f wakeFunc) Wake(string, int) bool { f(); return true }
func (wakeFunc) Wanted(string)           {}
func (wakeFunc) WakeAll()                {}

func TestReleasedKeysLeaveNothing(t *testing.T) {
	ls, ws, _ := peers(t, "a", "b")
	ws[1].gone = true
	for i := range 1000 {
		c := claim("a", "k"+strconv.Itoa(i))
		acquire(t, ls[0], c)
		wait(t, ls[1], claim("b", c.Key))
		release(t, ls[0], c, 0)
	}
	if n := len(ls[0].store.keys); n != 0 {
		t.Fatalf("%d entries for keys that nobody holds or waits for", n)
	}
}

func TestExpiredKeysAreForgottenByTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, _, _ := peers(t, "a", "b")
		for i := range 1000 {
			c := claim("a", "k"+strconv.Itoa(i))
			acquire(t, ls[0], c)
			if i%2 == 0 {
				wait(t, ls[1], claim("b", c.Key))
			}
			if i%3 == 0 {
				ls[0].Abandon(c)
			}
		}
		time.Sleep(10 * time.Second)
		if err := ls[1].Check(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if n, late := len(ls[0].store.keys), len(ls[0].store.late); n != 0 || late != 0 {
			t.Fatalf("%d entries for expired keys, %d for abandoned claims", n, late)
		}
	})
}

// The woken instance tries soon, but not in the same instant: whoever comes by must not tidy the queue away meanwhile.
func TestQueueOutlivesTheFreeKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, _, woken := peers(t, "a", "b", "c")
		a, b := claim("a", "k"), claim("b", "k")
		acquire(t, ls[0], a)
		time.Sleep(2 * tidyEvery)
		wait(t, ls[1], b)
		wait(t, ls[2], claim("c", "k"))
		release(t, ls[0], a, 2)
		time.Sleep(waitsFor - time.Millisecond)
		acquire(t, ls[1], b)
		release(t, ls[1], b, 1)
		wantWoken(t, woken, "b k", "c k")
	})
}

func TestLeaseExpiresToTheNanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, _, _ := peers(t, "a", "b")
		acquire(t, ls[0], claim("a", "k"))
		time.Sleep(10*time.Second - time.Nanosecond)
		wait(t, ls[1], claim("b", "k"))
		time.Sleep(time.Nanosecond)
		acquire(t, ls[1], claim("b", "k"))
	})
}

func TestLostKeyIsGoneAndTokensKeepRising(t *testing.T) {
	ls, _, _ := peers(t, "a", "b")
	c := claim("a", "k")
	c.Fencing = true
	before, err := ls[0].Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !ls[1].Lose("k") {
		t.Error("Lose of a held key: false")
	}
	if ls[1].Lose("k") || ls[1].Lose("never") {
		t.Error("Lose of a key that nobody holds: true")
	}
	if err := ls[0].Renew(t.Context(), []*guard.Claim{c})[0]; !errors.Is(err, guard.ErrLeaseLost) {
		t.Errorf("Renew of a lost key: %v, want ErrLeaseLost", err)
	}
	next := claim("b", "k")
	next.Fencing = true
	after, err := ls[1].Acquire(t.Context(), next)
	if err != nil || after < before+guard.FenceBlock {
		t.Errorf("Acquire of a lost key: token %d, %v, want at least %d", after, err, before+guard.FenceBlock)
	}
}

func TestBrokenStoreAnswersNobodyAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, _, _ := peers(t, "a", "b")
		c := claim("a", "k")
		acquire(t, ls[0], c)
		mendFirst, mend := ls[1].Break(), ls[1].Break()
		mendFirst()
		mendFirst()

		_, acquired := ls[1].Acquire(t.Context(), claim("b", "free"))
		_, fenced := ls[0].Fence(t.Context(), c)
		_, released := ls[0].Release(t.Context(), c)
		renewed := ls[0].Renew(t.Context(), []*guard.Claim{c})[0]
		for _, err := range []error{acquired, fenced, released, renewed, ls[0].Check(t.Context(), c.TTL)} {
			if !errors.Is(err, guard.ErrUnavailable) {
				t.Errorf("%v, want ErrUnavailable", err)
			}
		}

		mend()
		acquire(t, ls[0], claim("a", "free"))
		wait(t, ls[1], claim("b", "k"))
		time.Sleep(10 * time.Second) // nothing was renewed
		acquire(t, ls[1], claim("b", "k"))
	})
}

func TestClaimAbandonedWhileBrokenIsFreedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, _, _ := peers(t, "a", "b")
		c := claim("a", "k")
		acquire(t, ls[0], c)
		mend := ls[0].Break()
		ls[0].Abandon(c)
		mend()
		wait(t, ls[1], claim("b", "k"))
		time.Sleep(lateAfter)
		acquire(t, ls[1], claim("b", "k"))
	})
}

func TestConcurrentUse(t *testing.T) {
	const lockers, rounds = 8, 200
	first := New()
	ls := []*Locker{first}
	for len(ls) < lockers {
		ls = append(ls, first.Peer())
	}
	for _, l := range ls {
		if err := l.Open(wakeFunc(func() {})); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	inside := 0 // guarded by the key: the race detector is the check
	for i, l := range ls {
		wg.Go(func() {
			for range rounds {
				c := claim(strconv.Itoa(i), "k")
				for {
					if _, err := l.Acquire(t.Context(), c); err == nil {
						break
					}
				}
				inside++
				l.Renew(t.Context(), []*guard.Claim{c})
				if _, err := l.Release(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if inside != lockers*rounds {
		t.Fatalf("%d sections counted to %d", lockers*rounds, inside)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	l := New()
	if err := l.Open(wakeFunc(nil)); err != nil {
		b.Fatal(err)
	}
	c := claim("a", "k")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Acquire(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		if _, err := l.Release(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

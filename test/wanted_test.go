package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// isWanted reports whether the channel is closed by now.
func isWanted(wanted <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-wanted:
		return true
	default:
		return false
	}
}

// wantedWithin fails t if the channel is not closed within d.
func wantedWithin(t *testing.T, wanted <-chan struct{}, d time.Duration) {
	t.Helper()
	select {
	case <-wanted:
	case <-time.After(d):
		t.Errorf("not told within %v", d)
	}
}

// waitFor has g wait for key until the test ends, or until leave.
func waitFor(t *testing.T, g *guard.Guard, key string) (leave context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = g.With(guard.WithMaxWait(time.Hour)).Do(ctx, key, nop) }()
	synctest.Wait()
	return cancel
}

// A holding is what a function holds, and a call that it holds up.
type holding struct {
	hold, wait []guard.Option
	keys       []string // of a DoAll, if there are several
	waits      string   // the key of the call that waits
	here       bool     // that call is one of this process
	around     string   // the key of a call around it
	inside     string   // the key of a call inside, which asks
}

// run runs fn while h's keys are held by a.
func (h holding) run(ctx context.Context, a *guard.Guard, fn func(ctx context.Context) error) error {
	within := func(key string, fn func(ctx context.Context) error) func(ctx context.Context) error {
		if key == "" {
			return fn
		}
		return func(ctx context.Context) error { return a.Do(ctx, key, fn) }
	}
	ask, g := within(h.inside, fn), a.With(h.hold...)
	return within(h.around, func(ctx context.Context) error {
		if len(h.keys) == 1 {
			return g.Do(ctx, h.keys[0], ask)
		}
		return g.DoAll(ctx, h.keys, ask)
	})(ctx)
}

func TestWanted_ACallThatWaitsClosesIt(t *testing.T) {
	one, three := []string{key}, []string{key, "b", "a"}
	shared, permits := []guard.Option{guard.WithShared()}, []guard.Option{guard.WithPermits(3)}
	for name, h := range map[string]holding{
		"of another process":               {keys: one, waits: key},
		"of this process":                  {keys: one, waits: key, here: true},
		"with fencing":                     {keys: one, waits: key, hold: []guard.Option{guard.WithFencing()}},
		"asked inside a call inside":       {keys: one, waits: key, inside: key},
		"the same, here":                   {keys: one, waits: key, inside: key, here: true},
		"the first key of a DoAll":         {keys: three, waits: "a"},
		"the last one":                     {keys: three, waits: key, here: true},
		"asked inside a DoAll":             {keys: three, waits: "b", inside: key},
		"inside a call on one of its keys": {keys: three, waits: "a", around: key},
		"exclusive, for a shared lease":    {keys: one, waits: key, hold: shared},
		"the same, here, shared":           {keys: one, waits: key, hold: shared, here: true},
		"shared, for an exclusive one":     {keys: one, waits: key, wait: shared},
		"an exclusive one, for permits":    {keys: one, waits: key, hold: permits},
		"DoAll of permits":                 {keys: three, waits: "b", hold: permits, here: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				waiter := b.other.With(h.wait...)
				if h.here {
					waiter = b.With(h.wait...)
				}
				early := func(ctx context.Context) error {
					wanted := guard.Wanted(ctx)
					if isWanted(wanted) {
						t.Error("closed before anybody waits")
					}
					defer waitFor(t, waiter, h.waits)()
					if !isWanted(wanted) || guard.Wanted(ctx) != wanted {
						t.Error("not closed, or another channel")
					}
					return nil
				}
				late := func(ctx context.Context) error { // asks, and is answered at once
					defer waitFor(t, waiter, h.waits)()
					if !isWanted(guard.Wanted(ctx)) {
						t.Error("not closed though the call waits already")
					}
					return nil
				}
				wantErr(t, h.run(t.Context(), b.Guard, early), nil)
				wantErr(t, h.run(t.Context(), b.Guard, late), nil)
			})
		})
	}
}

// The turns that follow on one grant, or come by a hand-over, know of those who
// wait behind them. The last one knows that nobody does.
func TestWanted_EachTurnIsToldOfThoseBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(time.Hour))
		var wg sync.WaitGroup
		var turns, told atomic.Int64
		for i := range 20 {
			wg.Go(func() {
				g := []*guard.Guard{b.Guard, b.other}[i%2]
				if err := g.Do(t.Context(), key, func(ctx context.Context) error {
					turns.Add(1)
					select {
					case <-guard.Wanted(ctx):
						told.Add(1)
					case <-time.After(time.Minute / 2):
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if turns.Load() != 20 || told.Load() != 19 {
			t.Errorf("%d of %d turns were told, want all but the last", told.Load(), turns.Load())
		}
	})
}

// A permit is wanted once no other is free.
func TestWanted_APermitIsWantedByWhomItHoldsUp(t *testing.T) {
	for _, here := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, guard.WithPermits(3))
			other := b.other
			if here {
				other = b.Guard
			}
			ls := []*guard.Lease{must(b.Acquire(t.Context(), key))}
			wanted := guard.Wanted(ls[0].Context())
			ls = append(ls, must(other.Acquire(t.Context(), key)), must(other.Acquire(t.Context(), key)))
			if isWanted(wanted) {
				t.Errorf("here %v: closed while a permit was free", here)
			}
			defer waitFor(t, other, key)()
			for _, l := range ls {
				if !isWanted(guard.Wanted(l.Context())) {
					t.Errorf("here %v: not closed for all who hold a permit", here)
				}
			}
			for _, l := range ls {
				wantErr(t, l.Release(t.Context()), nil)
			}
		})
	}
}

// What does not wait for the key does not want it.
func TestWanted_StaysOpenForAnybodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wantErr(t, b.Do(t.Context(), key, func(ctx context.Context) error {
			err := b.Do(ctx, "inner", func(ctx context.Context) error {
				wanted := guard.Wanted(ctx)
				for _, g := range []*guard.Guard{b.Guard, b.other} {
					defer waitFor(t, g, key)()
					_, err := g.TryAcquire(t.Context(), "inner")
					wantErr(t, err, guard.ErrNotAcquired)
				}
				for range 3 { // inside the lease
					go func() { _ = b.Do(ctx, "inner", sleeps(time.Second)) }()
				}
				time.Sleep(time.Minute / 2)
				if isWanted(wanted) {
					t.Error("closed by a call for the outer key, one inside, or one that does not wait")
				}
				return nil
			})
			if !isWanted(guard.Wanted(ctx)) {
				t.Error("the outer one is not closed")
			}
			return err
		}), nil)
	})
}

func TestWanted_IsNilWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithFailOpen(), guard.WithMaxWait(time.Second))
		var after context.Context
		wantErr(t, b.Do(t.Context(), key, func(ctx context.Context) error {
			after = ctx
			defer b.mem.Break()()
			return b.Do(ctx, "silent", func(ctx context.Context) error {
				if guard.Wanted(ctx) != nil {
					t.Error("a channel in a function without a lease")
				}
				return nil
			})
		}), nil)
		if guard.Wanted(t.Context()) != nil || guard.Wanted(after) != nil {
			t.Error("a channel without a lease")
		}
	})
}

// deafStore is a locker whose process hears of nobody who waits. deafStore counts
// looks.
type deafStore struct {
	*memlocker.Locker
	looks, listens atomic.Int64
}

func (d *deafStore) Listens() bool { return d.listens.Add(1) > 1 }

type unhearing struct{ locker.Waker }

func (unhearing) Wanted(string) {}

func (d *deafStore) Open(w locker.Waker) error { return d.Locker.Open(unhearing{w}) }

func (d *deafStore) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	d.looks.Add(1)
	return d.Locker.Inspect(ctx, key)
}

func TestWanted_IsClosedByTheNextRenewalIfMessagesGetLost(t *testing.T) {
	for _, keys := range [][]string{{key}, {"a", key, "z"}} {
		synctest.Test(t, func(t *testing.T) {
			l := &deafStore{Locker: memlocker.New()}
			g, other := newGuard(t, l), newGuard(t, l.Peer())
			err := g.DoAll(t.Context(), keys, func(ctx context.Context) error {
				time.Sleep(20 * time.Second)
				if n := l.looks.Load() + l.listens.Load(); n != 0 {
					t.Errorf("%d looks though nobody has asked", n)
				}
				wanted := guard.Wanted(ctx)
				if l.listens.Load() == 0 {
					t.Error("the way of messages is not opened")
				}
				time.Sleep(10 * time.Second)
				if n := l.looks.Load(); n == 0 || n > int64(4*len(keys)) || isWanted(wanted) {
					t.Errorf("%d looks, or closed though nobody waits", n)
				}
				defer waitFor(t, other, key)()
				wantedWithin(t, wanted, 4*time.Second) // the TTL is 10 s
				l.looks.Store(0)
				time.Sleep(10 * time.Second)
				if n := l.looks.Load(); n > int64(4*(len(keys)-1)) {
					t.Errorf("%d more looks", n)
				}
				return nil
			})
			wantErr(t, err, nil)
		})
	}
}

// The channel outlives calls inside that have asked, and nothing is left of
// those.
func TestWanted_OutlivesAndForgetsCallsInside(t *testing.T) {
	type marks struct{}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wantErr(t, b.Do(t.Context(), key, func(ctx context.Context) error {
			wanted := guard.Wanted(ctx)
			var left [100]weak.Pointer[[64]byte]
			for i := range left {
				mark := new([64]byte)
				left[i] = weak.Make(mark)
				inside := context.WithValue(ctx, marks{}, mark)
				wantErr(t, b.DoAll(inside, []string{key, "b"}, func(ctx context.Context) error {
					if isWanted(guard.Wanted(ctx)) {
						t.Error("closed by nobody")
					}
					return nil
				}), nil)
			}
			runtime.GC()
			n := 0
			for _, p := range left {
				if p.Value() != nil {
					n++
				}
			}
			if n > len(left)/10 {
				t.Errorf("%d calls of %d are still there", n, len(left))
			}
			defer waitFor(t, b.other, key)()
			if !isWanted(wanted) {
				t.Error("not closed after calls inside")
			}
			return nil
		}), nil)
	})
}

// A leaders is some instances that stand for election. Each leader leads until
// it is asked, and stands again.
type leaders struct {
	mu    sync.Mutex
	terms []string
}

func (ls *leaders) stand(ctx context.Context, t *testing.T, g *guard.Guard, name string, listens bool) {
	t.Helper()
	go func() {
		for ctx.Err() == nil {
			err := g.Lead(ctx, key, func(ctx context.Context) error {
				ls.mu.Lock()
				ls.terms = append(ls.terms, name)
				ls.mu.Unlock()
				var wanted <-chan struct{}
				if listens {
					wanted = guard.Wanted(ctx)
				}
				select {
				case <-wanted:
					time.Sleep(time.Second) // the rest of its batch
				case <-ctx.Done():
				}
				return nil
			})
			if err != nil && !errors.Is(err, guard.ErrNotAcquired) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}()
	synctest.Wait()
}

func (ls *leaders) want(t *testing.T, terms ...string) {
	t.Helper()
	synctest.Wait()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if fmt.Sprint(ls.terms) != fmt.Sprint(terms) {
		t.Errorf("the leaders were %v, want %v", ls.terms, terms)
	}
}

func TestAskLeader_OnlyARequestMakesALeaderStepDown(t *testing.T) {
	for _, apart := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			mem := memlocker.New()
			first := newGuard(t, mem)
			of := func() *guard.Guard {
				if apart {
					return newGuard(t, mem.Peer())
				}
				return first
			}
			ctx, cancel := context.WithCancel(t.Context())
			ls := &leaders{}
			ls.stand(ctx, t, first, "a", true)
			for _, name := range []string{"b", "c"} {
				ls.stand(ctx, t, of(), name, true)
			}
			asker := of()
			ask := func(want bool, takes time.Duration) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				asked, err := asker.AskLeader(ctx, key)
				if took := time.Since(start); asked != want || err != nil || took != takes {
					t.Errorf("AskLeader: %v, %v after %v, want %v after %v", asked, err, took, want, takes)
				}
			}
			_, err := asker.With(guard.WithMaxWait(time.Second)).Acquire(t.Context(), key)
			wantErr(t, err, guard.ErrNotAcquired)
			ls.want(t, "a")
			for range 3 { // once around
				ask(true, time.Second) // which the leader needs
				time.Sleep(time.Minute)
			}
			ls.want(t, "a", "b", "c", "a")
			cancel()
			time.Sleep(time.Second)
			ask(false, 0) // no leader
		})
	}
}

func TestAskLeader_AsksNobodyIfItsCtxEndedBecauseAnotherKeyWasHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, leave := context.WithCancelCause(t.Context())
		leave(&guard.HeldError{Key: "another"})
		asked, err := b.AskLeader(ctx, key)
		wantErr(t, err, context.Canceled)
		if asked {
			t.Error("AskLeader says that somebody was asked")
		}
	})
}

func TestAskLeader_AsksEachLeaderOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithPermits(2))
		ls := &leaders{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		within, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		ls.stand(ctx, t, b.Guard, "a", true)
		asked, err := b.AskLeader(within, key) // one leader, while the other place is free
		if !asked || err != nil {
			t.Errorf("AskLeader of one of two: %v, %v", asked, err)
		}
		ls.want(t, "a", "a")
		ls.terms = ls.terms[1:]
		ls.stand(ctx, t, b.other, "b", true)
		ls.stand(ctx, t, newGuard(t, b.mem.Peer(), guard.WithPermits(2)), "c", true)
		ls.want(t, "a", "b")
		asked, err = b.AskLeader(within, key)
		if !asked || err != nil {
			t.Errorf("AskLeader: %v, %v", asked, err)
		}
		synctest.Wait()
		if ls.terms = ls.terms[2:]; len(ls.terms) != 2 || !slices.Contains(ls.terms, "c") {
			t.Errorf("%v follow, want c and one that stood again", ls.terms)
		}
	})
}

// A leader that does not look is not asked, and a request ends with its ctx,
// but counts for all that the function of the leader asks later.
func TestAskLeader_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		ls := &leaders{}
		ls.stand(ctx, t, b.Guard, "deaf", false)
		if asked, err := b.other.AskLeader(t.Context(), key); asked || err != nil {
			t.Errorf("a leader that does not listen: %v, %v", asked, err)
		}
		cancel()
		ls.want(t, "deaf")

		leaves, over := make(chan struct{}), make(chan error, 1)
		go func() {
			over <- b.Lead(t.Context(), key, func(ctx context.Context) error {
				inner := b.Do(ctx, key, func(ctx context.Context) error { // the lease of the leader counts
					<-guard.Wanted(ctx)
					return nil
				})
				<-leaves
				return errors.Join(inner, b.DoAll(ctx, []string{key, "b"}, func(ctx context.Context) error {
					if !isWanted(guard.Wanted(ctx)) {
						t.Error("a channel that is made later is not closed")
					}
					return nil
				}))
			})
		}()
		synctest.Wait()
		within, done := context.WithTimeout(t.Context(), 10*time.Second)
		defer done()
		start := time.Now()
		asked, err := b.other.AskLeader(within, key)
		wantErr(t, err, guard.ErrNotAcquired, context.DeadlineExceeded)
		if !asked || time.Since(start) != 10*time.Second {
			t.Errorf("asked %v after %v", asked, time.Since(start))
		}
		close(leaves)
		wantErr(t, <-over, nil)
		_, err = b.AskLeader(t.Context(), "")
		wantErr(t, err, guard.ErrInvalidKey)
	})
}

// A leader that was cut off from the store hears again in its next term, and
// one that is closed ends.
func TestAskLeader_IsHeardAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		g, other := newGuard(t, mem), newGuard(t, mem.Peer())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ls := &leaders{}
		ls.stand(ctx, t, g, "a", true)
		mend := mem.Break()
		time.Sleep(time.Minute)
		mend()
		time.Sleep(time.Minute)
		ls.want(t, "a", "a")
		within, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		if asked, err := other.AskLeader(within, key); !asked || err != nil {
			t.Errorf("AskLeader: %v, %v", asked, err)
		}
		ls.want(t, "a", "a", "a")
		cancel()
		wantErr(t, g.Close(t.Context()), nil)
	})
}

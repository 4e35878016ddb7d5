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
	hold, wait func(g *guard.Guard) *guard.Guard
	keys       []string // of a DoAll, if there are several
	waits      string   // the key of the call that waits
	here       bool     // that call is one of this process
	nested     bool     // the function asks inside another call on the first key
}

func same(g *guard.Guard) *guard.Guard { return g }

func having(opts ...guard.Option) func(g *guard.Guard) *guard.Guard {
	return func(g *guard.Guard) *guard.Guard { return g.With(opts...) }
}

// run runs fn while h's keys are held by a.
func (h holding) run(ctx context.Context, a *guard.Guard, fn func(ctx context.Context) error) error {
	ask := fn
	if h.nested {
		ask = func(ctx context.Context) error { return a.Do(ctx, h.keys[0], fn) }
	}
	if len(h.keys) == 1 {
		return h.hold(a).Do(ctx, h.keys[0], ask)
	}
	return h.hold(a).DoAll(ctx, h.keys, ask)
}

func TestWanted_ACallThatWaitsClosesIt(t *testing.T) {
	one := []string{key}
	for name, h := range map[string]holding{
		"of another process":            {same, same, one, key, false, false},
		"of this process":               {same, same, one, key, true, false},
		"with fencing":                  {having(guard.WithFencing()), same, one, key, false, false},
		"asked inside a call inside":    {same, same, one, key, false, true},
		"the same, here":                {same, same, one, key, true, true},
		"the first key of a DoAll":      {same, same, []string{key, "b", "c"}, key, false, false},
		"the last one":                  {same, same, []string{key, "b", "a"}, "a", true, false},
		"asked inside a DoAll":          {same, same, []string{key, "b", "a"}, "b", false, true},
		"exclusive, for a shared lease": {having(guard.WithShared()), same, one, key, false, false},
		"the same, here, shared":        {having(guard.WithShared()), same, one, key, true, false},
		"shared, for an exclusive one":  {same, having(guard.WithShared()), one, key, false, false},
		"an exclusive one, for permits": {having(guard.WithPermits(3)), same, one, key, false, false},
		"DoAll of permits":              {having(guard.WithPermits(3)), same, []string{key, "b"}, "b", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				waiter := h.wait(b.other)
				if h.here {
					waiter = h.wait(b.Guard)
				}
				err := h.run(t.Context(), b.Guard, func(ctx context.Context) error {
					wanted := guard.Wanted(ctx)
					if isWanted(wanted) {
						t.Error("closed before anybody waits")
					}
					defer waitFor(t, waiter, h.waits)()
					if !isWanted(wanted) || guard.Wanted(ctx) != wanted {
						t.Error("not closed, or another channel")
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Whoever asks late is answered at once.
func TestWanted_ACallThatWaitsAlreadyIsEnough(t *testing.T) {
	for _, h := range []holding{
		{same, same, []string{key}, key, false, false},
		{same, same, []string{key}, key, true, false},
		{same, same, []string{key, "b"}, key, false, true},
		{having(guard.WithShared()), same, []string{key}, key, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			waiter := b.other
			if h.here {
				waiter = b.Guard
			}
			err := h.run(t.Context(), b.Guard, func(ctx context.Context) error {
				defer waitFor(t, waiter, h.waits)()
				if !isWanted(guard.Wanted(ctx)) {
					t.Errorf("%+v: not closed", h)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
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
			b := newBench(t, guard.WithPermits(3), guard.WithMaxWait(time.Hour))
			other := b.other
			if here {
				other = b.Guard
			}
			l := must(b.Acquire(t.Context(), key))
			wanted := guard.Wanted(l.Context())
			var more []*guard.Lease
			var mu sync.Mutex
			for range 2 { // at once, so that one of them stands in line behind the other
				go func() {
					l := must(other.Acquire(t.Context(), key))
					mu.Lock()
					defer mu.Unlock()
					more = append(more, l)
				}()
			}
			if isWanted(wanted) || len(more) != 2 {
				t.Errorf("here %v: closed, or %d permits", here, len(more))
			}
			defer waitFor(t, other, key)()
			if !isWanted(wanted) || !isWanted(guard.Wanted(more[0].Context())) {
				t.Errorf("here %v: not closed for all who hold a permit", here)
			}
			for _, l := range append(more, l) {
				wantErr(t, l.Release(t.Context()), nil)
			}
		})
	}
}

// The last permits of a process go to two calls while a third stands in line.
func TestWanted_APermitIsWantedByACallThatWasInLineBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithPermits(3))
		l := must(b.Acquire(t.Context(), key))
		wanted := guard.Wanted(l.Context())
		type answer = locker.Answer
		b.spy.set(func(s *spy) {
			s.acquire = func(_ context.Context, _ *locker.Claim, next func() (answer, error)) (answer, error) {
				time.Sleep(time.Millisecond) // so that they stand in line
				return next()
			}
		})
		var wg sync.WaitGroup
		lasts := func(context.Context) error { time.Sleep(time.Second); return nil }
		for range 3 {
			wg.Go(func() { wantErr(t, b.Do(t.Context(), key, lasts), nil) })
		}
		time.Sleep(time.Second / 2)
		if !isWanted(wanted) {
			t.Error("not closed")
		}
		wg.Wait()
		wantErr(t, l.Release(t.Context()), nil)
	})
}

// A call that is handed the key knows at once of those who stay behind.
func TestWanted_AnOfferTellsOfThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		l := must(b.Acquire(t.Context(), key))
		next := make(chan *guard.Lease, 1)
		go func() { next <- must(b.other.Acquire(t.Context(), key)) }()
		synctest.Wait()
		defer waitFor(t, newGuard(t, b.mem.Peer()), key)()
		wantErr(t, l.Release(t.Context()), nil)
		l = <-next
		if !isWanted(guard.Wanted(l.Context())) {
			t.Error("not closed")
		}
		wantErr(t, l.Release(t.Context()), nil)
	})
}

// What does not wait for the key does not want it.
func TestWanted_StaysOpenForAnybodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			err := b.Do(ctx, "inner", func(ctx context.Context) error {
				wanted := guard.Wanted(ctx)
				for _, g := range []*guard.Guard{b.Guard, b.other} {
					defer waitFor(t, g, key)()
					_, err := g.TryAcquire(t.Context(), "inner")
					wantErr(t, err, guard.ErrNotAcquired)
				}
				if isWanted(wanted) {
					t.Error("closed by a call for the outer key, or by one that does not wait")
				}
				return nil
			})
			if !isWanted(guard.Wanted(ctx)) {
				t.Error("the outer one is not closed")
			}
			return err
		})
		wantErr(t, err, nil)

		err = b.Do(t.Context(), "siblings", func(ctx context.Context) error {
			wanted := guard.Wanted(ctx)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					_ = b.Do(ctx, "siblings", func(context.Context) error { time.Sleep(time.Second); return nil })
				})
			}
			wg.Wait()
			time.Sleep(time.Minute / 2)
			if isWanted(wanted) {
				t.Error("closed by a call inside the lease")
			}
			return nil
		})
		wantErr(t, err, nil)
	})
}

// A process that was told in one turn, and comes back when the key is free, is
// not told again by that.
func TestWanted_IsNotClosedByWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 3 {
			err := b.Do(t.Context(), key, func(ctx context.Context) error {
				if isWanted(guard.Wanted(ctx)) {
					t.Error("closed though nobody waits")
				}
				waitFor(t, b.other, key)
				return nil
			})
			wantErr(t, err, nil)
			synctest.Wait()
		}
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

// A lease that has ended lets others take the key though some wait already. No
// message tells the new holder of them.
func TestWanted_WhoBargesInHearsOfThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		dead := must(b.other.With(guard.WithoutRenewal()).Acquire(t.Context(), key))
		defer waitFor(t, newGuard(t, b.mem.Peer()), key)()
		b.mem.Lose(key)
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			wantedWithin(t, guard.Wanted(ctx), 4*time.Second)
			return nil
		})
		wantErr(t, err, nil)
		wantErr(t, dead.Release(t.Context()), guard.ErrLeaseLost)
	})
}

// One turn that lasts long, and many calls of DoAll inside it that ask.
func TestWanted_OutlivesCallsInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wantErr(t, b.Do(t.Context(), key, func(ctx context.Context) error {
			wanted := guard.Wanted(ctx)
			for range 100 {
				err := b.DoAll(ctx, []string{key, "b"}, func(ctx context.Context) error {
					if isWanted(guard.Wanted(ctx)) {
						t.Error("closed by nobody")
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			defer waitFor(t, b.other, key)()
			if !isWanted(wanted) {
				t.Error("not closed after calls inside")
			}
			return nil
		}), nil)
	})
}

// A DoAll inside a call on its last key is wanted by a call for its first.
func TestWanted_CountsAllKeysOfADoAllInsideACallOnOneOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wantErr(t, b.Do(t.Context(), "z", func(ctx context.Context) error {
			return b.DoAll(ctx, []string{"a", "z"}, func(ctx context.Context) error {
				wanted := guard.Wanted(ctx)
				defer waitFor(t, b.other, "a")()
				if !isWanted(wanted) {
					t.Error("not closed")
				}
				return nil
			})
		}), nil)
	})
}

// A call on one of the keys of a DoAll that asks first asks for all of them.
func TestWanted_ACallInsideADoAllAsksForAllItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wantErr(t, b.DoAll(t.Context(), []string{"a", "z"}, func(ctx context.Context) error {
			var inside <-chan struct{}
			err := b.Do(ctx, "a", func(ctx context.Context) error {
				inside = guard.Wanted(ctx)
				return nil
			})
			defer waitFor(t, b.other, "z")()
			if !isWanted(inside) || !isWanted(guard.Wanted(ctx)) {
				t.Error("not closed")
			}
			return err
		}), nil)
	})
}

// Nothing is left of the calls inside a long turn that have asked.
func TestWanted_ForgetsCallsInsideThatHaveEnded(t *testing.T) {
	type marks struct{}
	b := newBench(t)
	wantErr(t, b.Do(t.Context(), key, func(ctx context.Context) error {
		const calls = 100
		var left [calls]weak.Pointer[[64]byte]
		for i := range calls {
			mark := new([64]byte)
			left[i] = weak.Make(mark)
			err := b.DoAll(context.WithValue(ctx, marks{}, mark), []string{key, "b"}, func(ctx context.Context) error {
				guard.Wanted(ctx)
				return nil
			})
			if err != nil {
				return err
			}
		}
		runtime.GC()
		n := 0
		for _, p := range left {
			if p.Value() != nil {
				n++
			}
		}
		if n > calls/10 {
			t.Errorf("%d calls of %d are still there", n, calls)
		}
		return nil
	}), nil)
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
			for _, name := range []string{"b", "c", "d", "e", "f"} {
				ls.stand(ctx, t, of(), name, true)
			}
			asker := of()
			ask := func() (asked bool, took time.Duration, err error) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				asked, err = asker.AskLeader(ctx, key)
				return asked, time.Since(start), err
			}
			time.Sleep(time.Minute)
			ls.want(t, "a")
			_, err := asker.With(guard.WithMaxWait(time.Second)).Acquire(t.Context(), key)
			wantErr(t, err, guard.ErrNotAcquired)
			ls.want(t, "a")
			if asked, took, err := ask(); !asked || err != nil || took != time.Second {
				t.Errorf("AskLeader: %v, %v after %v, want the second that the leader needs", asked, err, took)
			}
			ls.want(t, "a", "b")
			time.Sleep(time.Minute)
			ls.want(t, "a", "b")
			for range 5 { // once around
				time.Sleep(time.Second)
				if asked, _, err := ask(); !asked || err != nil {
					t.Errorf("AskLeader: %v, %v", asked, err)
				}
			}
			ls.want(t, "a", "b", "c", "d", "e", "f", "a")
			cancel()
			time.Sleep(time.Second)
			if asked, _, err := ask(); asked || err != nil {
				t.Errorf("AskLeader without a leader: %v, %v", asked, err)
			}
		})
	}
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

// A leader that does not look is not asked, and a request ends with its ctx.
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
		synctest.Wait()
		ls.want(t, "deaf")

		leaves := make(chan struct{})
		go func() {
			_ = b.Lead(t.Context(), key, func(ctx context.Context) error {
				inner := b.Do(ctx, key, func(ctx context.Context) error { // the lease of the leader counts
					<-guard.Wanted(ctx)
					return nil
				})
				<-leaves
				return inner
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
		synctest.Wait()
		_, err = b.AskLeader(t.Context(), "")
		wantErr(t, err, guard.ErrInvalidKey)
	})
}

// A request counts for all that the function of the leader asks later.
func TestAskLeader_IsNotForgottenByTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		over := make(chan error, 1)
		go func() {
			over <- b.Lead(t.Context(), key, func(ctx context.Context) error {
				<-guard.Wanted(ctx)
				return b.DoAll(ctx, []string{key, "b"}, func(ctx context.Context) error {
					if !isWanted(guard.Wanted(ctx)) {
						t.Error("a channel that is made later is not closed")
					}
					return nil
				})
			})
		}()
		synctest.Wait()
		asked, err := b.other.AskLeader(t.Context(), key)
		wantErr(t, err, nil)
		wantErr(t, <-over, nil)
		if !asked {
			t.Error("nobody was asked")
		}
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

package guard_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/locker/redislocker"
	"github.com/go-lockguard/guard/outcome"
)

// runAtOnce runs n calls of each guard at once, and returns how many functions
// ran at the same time at most.
func runAtOnce(t *testing.T, n int, lasts time.Duration, gs ...*guard.Guard) int64 {
	t.Helper()
	var on, peak atomic.Int64
	var wg sync.WaitGroup
	for _, g := range gs {
		for range n {
			wg.Go(func() {
				err := g.Do(t.Context(), key, func(context.Context) error {
					now, seen := on.Add(1), peak.Load()
					for now > seen && !peak.CompareAndSwap(seen, now) {
						seen = peak.Load()
					}
					time.Sleep(lasts)
					on.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	return peak.Load()
}

func TestDo_AModeSaysHowManyRunAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		opts []guard.Option
		want int64 // of forty calls of two processes
	}{
		"exclusive": {nil, 1},
		"permits":   {[]guard.Option{guard.WithPermits(3)}, 3},
		"shared":    {[]guard.Option{guard.WithShared()}, 40},
		"alone":     {[]guard.Option{guard.WithShared(), guard.WithPermits(1)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, guard.WithMaxWait(time.Hour))
				one, two := b.Guard, b.other
				for _, o := range c.opts {
					one, two = one.With(o), two.With(o)
				}
				if n := runAtOnce(t, 20, time.Second, one, two); n != c.want {
					t.Errorf("%d at once, want %d", n, c.want)
				}
			})
		})
	}
}

// The modes keep their rule on a real server, among processes and with
// exclusive calls beside them.
func TestDo_ModesKeepTheirRuleOnRedis(t *testing.T) {
	addr := redistest.Start(t).Addr
	process := func() *guard.Guard {
		return newGuard(t, redislocker.New(redistest.Client(t, addr)), guard.WithMaxWait(time.Minute))
	}
	one, two := process(), process()
	if n := runAtOnce(t, 20, 5*time.Millisecond, one.With(guard.WithPermits(3)),
		two.With(guard.WithPermits(3))); n > 3 {
		t.Errorf("%d permits at once, want 3", n)
	}
	var readers, writers atomic.Int64
	var wg sync.WaitGroup
	for _, g := range []*guard.Guard{one, two} {
		for i := range 12 {
			wg.Go(func() {
				reads := i%4 != 0
				for range 10 {
					mine, use := &writers, g
					if reads {
						mine, use = &readers, g.With(guard.WithShared())
					}
					err := use.Do(t.Context(), key, func(context.Context) error {
						mine.Add(1)
						defer mine.Add(-1)
						for range 2 {
							if r, w := readers.Load(), writers.Load(); w > 1 || w == 1 && r > 0 {
								t.Errorf("%d readers and %d writers at once", r, w)
							}
							time.Sleep(time.Millisecond)
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestNew_RefusesModesThatDoNotFit(t *testing.T) {
	for name, opts := range map[string][]guard.Option{
		"shared and permits": {guard.WithShared(), guard.WithPermits(2)},
		"shared and fencing": {guard.WithFencing(), guard.WithShared()},
		"shared and MinHold": {guard.WithShared(), guard.WithMinHold(time.Second)},
		"no permits":         {guard.WithPermits(0)},
		"too many permits":   {guard.WithPermits(999_999)},
	} {
		if _, err := guard.New(memlocker.New(), opts...); !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bare := testguard.Plain{Locker: memlocker.New()}
	for _, mode := range []guard.Option{guard.WithShared(), guard.WithPermits(2), guard.WithLinger(time.Second)} {
		_, err := guard.New(bare, mode)
		if !errors.Is(err, guard.ErrInvalidOption) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a store without modes: %v", err)
		}
	}
	g := newGuard(t, bare, guard.WithPermits(1))
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("With: %v", err)
		}
	}()
	g.With(guard.WithShared())
}

func TestLinger_IsRefusedWithAdvice(t *testing.T) {
	bare := testguard.Plain{Locker: memlocker.New()}
	second := guard.WithLinger(time.Second)
	for _, c := range []struct {
		locker guard.Locker // nil: a memlocker
		opts   []guard.Option
		want   string
	}{
		{nil, []guard.Option{second, guard.WithShared()}, "together with WithShared: such keys do not linger"},
		{nil, []guard.Option{guard.WithPermits(2), second}, "together with WithPermits: such keys do not linger"},
		{nil, []guard.Option{second, guard.WithMinHold(time.Second)}, "together with WithMinHold: such"},
		{nil, []guard.Option{second, guard.WithoutRenewal()}, "together with WithoutRenewal: such"},
		{nil, []guard.Option{guard.WithLinger(-1)}, "want 0 or at least 1ms"},
		{nil, []guard.Option{guard.WithLinger(1667 * time.Millisecond)}, "want at most 1.6665s with a TTL of 10s"},
		{nil, []guard.Option{second, guard.WithTTL(time.Second)}, "want at most 500ms with a TTL of 1s"},
		{bare, []guard.Option{second}, "needs a store with messages"},
	} {
		if c.locker == nil {
			c.locker = memlocker.New()
		}
		check := func(how string, err error) {
			t.Helper()
			if !errors.Is(err, guard.ErrInvalidOption) || !strings.Contains(err.Error(), c.want) ||
				errors.Is(err, errors.ErrUnsupported) != (c.locker == bare) {
				t.Errorf("%s: %v, want %q", how, err, c.want)
			}
		}
		_, err := guard.New(c.locker, c.opts...)
		check("New", err)
		g := newGuard(t, c.locker)
		func() {
			defer func() {
				err, _ := recover().(error)
				check("With", err)
			}()
			g.With(c.opts...)
		}()
	}
}

// A route that linger does not suit ignores it, and 0 turns it off anywhere.
func TestWith_LingerOffIsAnyStores(t *testing.T) {
	g := newGuard(t, memlocker.New(), guard.WithLinger(time.Second))
	for _, o := range []guard.Option{
		guard.WithShared(), guard.WithPermits(2), guard.WithMinHold(time.Second), guard.WithoutRenewal(),
		guard.WithTTL(time.Second), guard.WithLinger(0),
	} {
		g.With(o)
	}
	bare := newGuard(t, testguard.Plain{Locker: memlocker.New()}, guard.WithLinger(0))
	bare.With(guard.WithLinger(0))
}

// A mode of With replaces the guard's. A setting that the mode ignores comes
// back with the next one.
func TestWith_AModeReplacesTheGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memlocker.New(), guard.WithMinHold(time.Minute), guard.WithFencing())
		read := g.With(guard.WithShared())
		if d := read.MinHold(); d != 0 {
			t.Errorf("a shared lease is kept for %v", d)
		}
		if d := read.With(guard.WithPermits(2)).MinHold(); d != time.Minute {
			t.Errorf("a permit is kept for %v", d)
		}
		if n := runAtOnce(t, 4, time.Second, read); n != 4 {
			t.Errorf("%d readers at once", n)
		}
	})
}

func TestDo_InsideALeaseOfAMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		mode := map[string]*guard.Guard{
			"exclusive": b.Guard, "shared": b.With(guard.WithShared()), "permits": b.With(guard.WithPermits(2)),
		}
		bars := map[string][]string{
			"exclusive": nil, "shared": {"exclusive", "permits"}, "permits": {"exclusive"},
		}
		for outer, g := range mode {
			for inner, in := range mode {
				err := g.Do(t.Context(), key, func(ctx context.Context) error {
					before := b.spy.acquires.Load()
					err := in.Do(ctx, key, func(context.Context) error { return nil })
					if n := b.spy.acquires.Load() - before; n != 0 {
						t.Errorf("%s inside %s: %d tries", inner, outer, n)
					}
					if o, _ := outcome.Of(context.WithoutCancel(t.Context()), err); err != nil &&
						(o.Status != http.StatusInternalServerError || o.Code != outcome.CodeMisconfigured) {
						t.Errorf("%s inside %s: %+v", inner, outer, o)
					}
					return err
				})
				barred := slices.Contains(bars[outer], inner)
				if errors.Is(err, guard.ErrInvalidOption) != barred || !barred && err != nil {
					t.Errorf("%s inside %s: %v", inner, outer, err)
				}
			}
		}
	})
}

func TestDo_ASharedLeaseHasNoToken(t *testing.T) {
	g := newGuard(t, memlocker.New())
	for name, c := range map[string]struct {
		opt  guard.Option
		want error
	}{"shared": {guard.WithShared(), guard.ErrInvalidOption}, "permits": {guard.WithPermits(2), nil}} {
		err := g.With(c.opt).Do(t.Context(), key, func(ctx context.Context) error {
			_, err := guard.FencingToken(ctx)
			return err
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// So many instances lead as there are permits, and the next one when one ends.
func TestLead_AsManyLeadAsThereArePermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		var leading atomic.Int64
		var wg sync.WaitGroup
		stop := make(chan struct{}, 3)
		for range 3 {
			g := newGuard(t, mem.Peer(), guard.WithPermits(2))
			wg.Go(func() {
				err := g.Lead(t.Context(), key, func(context.Context) error {
					leading.Add(1)
					<-stop
					leading.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute)
		if n := leading.Load(); n != 2 {
			t.Errorf("%d lead, want 2", n)
		}
		stop <- struct{}{}
		time.Sleep(time.Second)
		if n := leading.Load(); n != 2 {
			t.Errorf("%d lead after one has ended, want 2", n)
		}
		stop <- struct{}{}
		stop <- struct{}{}
		wg.Wait()
		err := newGuard(t, mem, guard.WithShared()).Lead(t.Context(), key, func(context.Context) error { return nil })
		if !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("Lead with WithShared: %v", err)
		}
	})
}

// A crowd has no one holder to name. The time until its end is known.
func TestDo_TheHolderOfACrowdIsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		read := newGuard(t, mem, guard.WithShared())
		for name, g := range map[string]*guard.Guard{
			"here": read.With(guard.WithPermits(1)), "elsewhere": newGuard(t, mem.Peer()),
		} {
			err := read.Do(t.Context(), key, func(context.Context) error {
				_, err := g.TryAcquire(t.Context(), key)
				var held *guard.HeldError
				if !errors.As(err, &held) || held.Holder != (guard.Holder{}) || held.Remaining <= 0 {
					t.Errorf("%s: %v, %+v", name, err, held)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if s := read.Snapshot(false); len(s) != 0 && len(s[0].Holds) != 0 {
				t.Errorf("%s: left in the snapshot: %+v", name, s)
			}
		}
	})
}

func TestSnapshot_ShowsTheMode(t *testing.T) {
	g := newGuard(t, memlocker.New(), guard.WithShared())
	_ = g.Do(t.Context(), key, func(context.Context) error {
		if s := g.Snapshot(false); len(s) != 1 || len(s[0].Holds) != 1 || s[0].Holds[0].Mode != "shared" {
			t.Errorf("%+v", s)
		}
		return nil
	})
}

// All of a DoAll are of the guard's mode.
func TestDoAll_AllOfItAreOfTheGuardsMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		var on atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			g := newGuard(t, mem.Peer(), guard.WithShared())
			wg.Go(func() {
				err := g.DoAll(t.Context(), []string{"b", "a", "c"}, func(context.Context) error {
					on.Add(1)
					time.Sleep(time.Second)
					if n := on.Load(); n != 3 {
						t.Errorf("%d at once", n)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

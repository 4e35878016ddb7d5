package jobguard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/jobguard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

const interval = 2 * time.Second

func nextTick(t time.Time) time.Time { return t.Truncate(interval).Add(interval) }

// book notes which ticks were run, in their order.
type book struct {
	mu     sync.Mutex // guards ticks and inside
	ticks  []time.Time
	inside int
	most   int // runs at once
}

// work returns a job of length d.
func (b *book) work(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		at, ok := jobguard.TickOf(ctx)
		if !ok {
			return errors.New("no tick")
		}
		b.mu.Lock()
		b.ticks = append(b.ticks, at)
		b.inside++
		b.most = max(b.most, b.inside)
		b.mu.Unlock()
		time.Sleep(d)
		b.mu.Lock()
		b.inside--
		b.mu.Unlock()
		return nil
	}
}

// wantEach fails t unless each tick from first to last was run once, and no two
// at once.
func (b *book) wantEach(t *testing.T, first, last time.Time) {
	t.Helper()
	n := map[time.Time]int{}
	for _, at := range b.ticks {
		n[at.UTC()]++
	}
	for at := first; !at.After(last); at = nextTick(at) {
		if n[at.UTC()] != 1 {
			t.Errorf("tick %v was run %d times, want 1", at, n[at.UTC()])
		}
		delete(n, at.UTC())
	}
	if len(n) > 0 {
		t.Errorf("also run: %v", n)
	}
	if b.most > 1 {
		t.Errorf("%d runs at once", b.most)
	}
}

func ticks(t *testing.T, l guard.Locker, catchUp int, work func(context.Context) error, opts ...guard.Option,
) *jobguard.Ticks {
	t.Helper()
	g := testguard.New(t, l, opts...)
	all, err := jobguard.NewTicks(&jobguard.Ticks{
		Guard: g, Name: "report", Spec: "@every 2s", Next: nextTick, Work: work, CatchUp: catchUp,
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTicks_EachRunsOnceWhateverTheClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		store, ran := memlocker.New(), new(book)
		start := nextTick(time.Now())
		var wg sync.WaitGroup
		for i := range 5 {
			shift := time.Duration(i-2) * 450 * time.Millisecond
			instance := ticks(t, store.Peer(), 0, ran.work(rand.N(100*time.Millisecond)))
			wg.Go(func() {
				for at, k := start, 0; k < n; at, k = nextTick(at), k+1 {
					time.Sleep(time.Until(at.Add(shift)))
					if err := instance.Run(t.Context(), at); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		ran.wantEach(t, start, start.Add((n-1)*interval))
	})
}

func TestTicks_NoKeyLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlocker.New()
		instance := ticks(t, store, 0, new(book).work(0), guard.WithLinger(time.Second))
		for at, k := nextTick(time.Now()), 0; k < 10; at, k = nextTick(at), k+1 {
			time.Sleep(time.Until(at))
			if err := instance.Run(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			for s, err := range store.List(t.Context()) {
				if err != nil || s.Held {
					t.Fatalf("after a run: %+v, %v", s, err)
				}
			}
		}
	})
}

// One instance in five runs each tick. The rest of the time it is away.
func TestTicks_MissedOnesRunOnceOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ran := memlocker.New(), new(book)
		first := nextTick(time.Now()).Add(10 * interval)
		run := func(catchUp int, at time.Time) {
			time.Sleep(time.Until(at))
			if err := ticks(t, store.Peer(), catchUp, ran.work(0)).Run(t.Context(), at); err != nil {
				t.Error(err)
			}
		}
		run(5, first) // catches up on nothing
		run(5, first.Add(3*interval))
		run(5, first.Add(4*interval))
		ran.wantEach(t, first, first.Add(4*interval))
		if !slices.IsSortedFunc(ran.ticks, time.Time.Compare) {
			t.Errorf("not the oldest first: %v", ran.ticks)
		}
		ran.ticks = nil
		run(2, first.Add(400*interval)) // 395 are missed, longer ago than ticks are recorded
		ran.wantEach(t, first.Add(398*interval), first.Add(400*interval))
	})
}

// An instance that starts does not wait for its next tick to make up for the
// missed ones.
func TestTicks_AnInstanceThatStartsRunsWhatWasMissed(t *testing.T) {
	for name, opts := range map[string][]guard.Option{"": nil, "with AtMostOnce": {guard.WithAtMostOnce()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, ran := memlocker.New(), new(book)
				start := func() {
					t.Helper()
					ticks(t, store.Peer(), 2, ran.work(0), opts...).RunMissed(t.Context(), time.Now())
				}
				first := nextTick(time.Now())
				time.Sleep(time.Until(first.Add(interval / 2)))
				if start(); len(ran.ticks) > 0 {
					t.Fatalf("ran %v, though the job never ran", ran.ticks)
				}
				first = first.Add(interval)
				time.Sleep(time.Until(first))
				if err := ticks(t, store.Peer(), 2, ran.work(0), opts...).Run(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				start() // nothing is missed
				time.Sleep(3*interval + interval/2)
				start()
				start()
				ran.ticks = ran.ticks[1:]
				ran.wantEach(t, first.Add(2*interval), first.Add(3*interval))
			})
		})
	}
}

// A job that takes longer than the time between two ticks makes others miss
// theirs.
func TestTicks_RunsOfDifferentTicksDoNotOverlap(t *testing.T) {
	for _, catchUp := range []int{0, 60} {
		synctest.Test(t, func(t *testing.T) {
			store, ran := memlocker.New(), new(book)
			start := nextTick(time.Now())
			var wg sync.WaitGroup
			for range 3 {
				slow := true
				instance := ticks(t, store.Peer(), catchUp, func(ctx context.Context) error {
					if slow = !slow; slow {
						return ran.work(5 * time.Second)(ctx)
					}
					return ran.work(100 * time.Millisecond)(ctx)
				})
				for k := range 50 {
					at := start.Add(time.Duration(k) * interval)
					wg.Go(func() {
						time.Sleep(time.Until(at))
						err := instance.Run(t.Context(), at)
						if err != nil && !errors.Is(err, guard.ErrNotAcquired) {
							t.Error(err)
						}
					})
				}
			}
			wg.Wait()
			if catchUp == 0 {
				if len(ran.ticks) < 20 || len(ran.ticks) > 50 || ran.most > 1 {
					t.Errorf("%d runs of 50 ticks, %d at once", len(ran.ticks), ran.most)
				}
				return
			}
			last := start.Add(60 * interval)
			time.Sleep(time.Until(last))
			if err := ticks(t, store.Peer(), catchUp, ran.work(0)).Run(t.Context(), last); err != nil {
				t.Error(err)
			}
			ran.wantEach(t, start, last)
		})
	}
}

// die is how a process ends inside a job: it sends nothing any more, and leaves
// its keys to their TTL.
func die(g *guard.Guard) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = g.Close(ctx)
	panic("dies")
}

func TestTicks_AJobThatEndsInAnyWayHasRunAndOneThatDiesHasNot(t *testing.T) {
	errJob := errors.New("job")
	for name, row := range map[string]struct {
		end    func(g *guard.Guard) error
		runs   int // that WithAtMostOnce leaves at 1
		passes any // what passes Run
	}{
		"fails":   {func(*guard.Guard) error { return errJob }, 1, nil},
		"panics":  {func(*guard.Guard) error { panic("job") }, 1, "job"},
		"Goexits": {func(*guard.Guard) error { runtime.Goexit(); return nil }, 1, "Goexit"},
		"dies":    {func(g *guard.Guard) error { die(g); return nil }, 2, "dies"},
	} {
		for _, catchUp := range []int{0, 5} {
			for _, opts := range [][]guard.Option{nil, {guard.WithAtMostOnce()}} {
				t.Run(fmt.Sprint(name, ", ", catchUp, ", ", len(opts)), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store, ran, runs := memlocker.New(), new(book), 0
						next := jobguard.Every(time.Hour)
						at := next(time.Now())
						time.Sleep(time.Until(at))
						for i := range 3 {
							instance := ticks(t, store.Peer(), catchUp, ran.work(0), opts...)
							instance.Work = func(context.Context) error {
								if runs++; runs == 1 {
									return row.end(instance.Guard)
								}
								return nil
							}
							instance.Next = next
							passed, err := runPast(t, instance, at)
							if i == 0 && (errors.Is(err, errJob) != (name == "fails") || passed != row.passes) ||
								i > 0 && (err != nil || passed != nil) {
								t.Errorf("run %d: %v, and %v passed", i, err, passed)
							}
							time.Sleep(time.Minute) // the lease of one that died is over
						}
						if want := max(1, row.runs-len(opts)); runs != want {
							t.Errorf("%d runs of the tick, want %d", runs, want)
						}
					})
				})
			}
		}
	}
}

// runPast returns what passed through Run, and its error.
func runPast(t *testing.T, instance *jobguard.Ticks, at time.Time) (passed any, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		passed = "Goexit"
		defer func() {
			if r := recover(); r != nil {
				passed = r
			}
		}()
		err = instance.Run(t.Context(), at)
		passed = nil
	}()
	<-done
	return passed, err
}

// A process that dies of a panic does not live on for a store that is silent.
func TestTicks_APanicDoesNotWaitForASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, died := guardtest.New(t), time.Time{}
		instance, err := jobguard.NewTicks(&jobguard.Ticks{
			Guard: g.With(guard.WithLogger(slog.New(slog.DiscardHandler))), Name: "report", Spec: "@every 2s",
			Next: nextTick, Work: func(context.Context) error {
				g.Break()
				died = time.Now()
				panic("job")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		passed, _ := runPast(t, instance, nextTick(time.Now()))
		if took := time.Since(died); passed != "job" || took > 10*time.Second {
			t.Errorf("%v passed after %v", passed, took)
		}
	})
}

// One job panics at each tick. With CatchUp, too, each tick runs on one
// instance, and the later ones do not wait.
func TestTicks_OneThatPanicsKeepsNoLaterOneBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ran := memlocker.New(), new(book)
		start, last := nextTick(time.Now()), time.Time{}
		for at, k := start, 0; k < 10; at, k = nextTick(at), k+1 {
			time.Sleep(time.Until(at))
			for range 3 {
				instance := ticks(t, store.Peer(), 5, func(ctx context.Context) error {
					_ = ran.work(0)(ctx)
					panic("job")
				})
				_, _ = runPast(t, instance, at)
			}
			last = at
		}
		ran.wantEach(t, start, last)
	})
}

// The other instances wait for a run that MaxHold ends, and do not repeat it.
func TestTicks_AJobThatMaxHoldEndsHasRun(t *testing.T) {
	for name, opts := range map[string][]guard.Option{"": nil, "with AtMostOnce": {guard.WithAtMostOnce()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, ran, ended := memlocker.New(), new(book), make(chan error, 3)
				next := jobguard.Every(time.Hour)
				at := next(time.Now())
				for range cap(ended) {
					ctx, stop := context.WithCancel(t.Context())
					instance := ticks(t, store.Peer(), 3, func(ctx context.Context) error {
						defer stop() // the scheduler is shut down meanwhile
						return ran.work(90 * time.Second)(ctx)
					}, opts...)
					instance.Next = next
					go func() {
						defer stop()
						time.Sleep(time.Until(at))
						ended <- instance.Run(ctx, at)
					}()
				}
				told := 0
				for range cap(ended) {
					switch err := <-ended; {
					case errors.Is(err, guard.ErrMaxHold):
						told++
					case err != nil:
						t.Error(err)
					}
				}
				if len(ran.ticks) != 1 || told != 1 {
					t.Errorf("%d runs, %d of which were told of MaxHold, want 1", len(ran.ticks), told)
				}
			})
		})
	}
}

// An instance that has waited for a run elsewhere runs the tick if that dies.
func TestTicks_AWaitingInstanceTakesOverFromOneThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ran := memlocker.New(), new(book)
		next := jobguard.Every(time.Hour)
		at, victim := next(time.Now()), ticks(t, store.Peer(), 0, ran.work(0))
		victim.Work = func(context.Context) error {
			time.Sleep(time.Second)
			die(victim.Guard)
			return nil
		}
		other := ticks(t, store.Peer(), 0, ran.work(0))
		victim.Next, other.Next = next, next
		time.Sleep(time.Until(at))
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = runPast(t, victim, at) })
		synctest.Wait()
		if err := other.Run(t.Context(), at); err != nil {
			t.Error(err)
		}
		wg.Wait()
		ran.wantEach(t, at, at)
	})
}

func TestTicks_LatestIsNotAfterNow(t *testing.T) {
	yearly := func(t time.Time) time.Time { return time.Date(t.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC) }
	never := func(time.Time) time.Time { return time.Time{} }
	at := time.Date(2026, 5, 4, 3, 2, 2, 0, time.UTC)
	for _, row := range []struct {
		next      func(time.Time) time.Time
		now, want time.Time
	}{
		{nextTick, at, at},
		{nextTick, at.Add(interval - 1), at},
		{nextTick, at.Add(-1), at.Add(-interval)},
		{yearly, at, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		{never, at, time.Time{}},
	} {
		if got := jobguard.Latest(row.next, row.now); !got.Equal(row.want) {
			t.Errorf("at %v: %v, want %v", row.now, got, row.want)
		}
	}
}

func TestTicks_ATickNeedsANameAJobAndNoMinHold(t *testing.T) {
	work := func(context.Context) error { return nil }
	g := (*guard.Guard)(nil).With()
	own := testguard.New(t, memlocker.New())
	for name, bad := range map[string]*jobguard.Ticks{
		"no name":          {Guard: g, Work: work},
		"no job":           {Guard: g, Name: "a"},
		"negative CatchUp": {Guard: g, Name: "a", Work: work, CatchUp: -1},
		"large CatchUp":    {Guard: g, Name: "a", Work: work, CatchUp: 101},
		"permits":          {Guard: own.With(guard.WithPermits(2)), Name: "a", Work: work},
		"readers":          {Guard: own.With(guard.WithShared()), Name: "a", Work: work},
		"MinHold":          {Guard: own.With(guard.WithMinHold(time.Second)), Name: "a", Work: work},
	} {
		if _, err := jobguard.NewTicks(bad); !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Ticks an hour apart are recorded for longer than an instance looks back,
// whatever it looks back.
func TestTicks_ALargerCatchUpRunsNoTickAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ran := memlocker.New(), new(book)
		next := jobguard.Every(time.Hour)
		at := next(time.Now())
		run := func(spec string, catchUp int) {
			time.Sleep(time.Until(at))
			instance := ticks(t, store.Peer(), catchUp, ran.work(0))
			instance.Next, instance.Spec = next, spec
			if err := instance.Run(t.Context(), at); err != nil {
				t.Error(err)
			}
			at = next(at)
		}
		for range 10 {
			run("@every 1h", 1)
		}
		if run("@every 1h", 10); len(ran.ticks) != 11 {
			t.Errorf("%d runs of 11 ticks", len(ran.ticks))
		}
		if run("0 * * * *", 10); len(ran.ticks) != 12 {
			t.Errorf("%d runs of 12 ticks after a change of the schedule", len(ran.ticks))
		}
	})
}

// A schedule that was changed and changed back begins anew: the job ran by the
// other one meanwhile.
func TestTicks_AScheduleThatComesBackCatchesUpOnNothing(t *testing.T) {
	for name, opts := range map[string][]guard.Option{"": nil, "with AtMostOnce": {guard.WithAtMostOnce()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, ran := memlocker.New(), new(book)
				hourly, daily := jobguard.Every(time.Hour), jobguard.Every(24*time.Hour)
				run := func(spec string, next func(time.Time) time.Time, want int) {
					t.Helper()
					time.Sleep(time.Until(next(time.Now())))
					ran.ticks = nil
					instance := ticks(t, store.Peer(), 10, ran.work(0), opts...)
					instance.Spec, instance.Next = spec, next
					instance.RunMissed(t.Context(), time.Now().Add(-time.Second)) // as at a start before the tick
					if err := instance.Run(t.Context(), time.Now()); err != nil {
						t.Error(err)
					}
					if len(ran.ticks) != want {
						t.Errorf("%s: ran %v, want %d ticks", spec, ran.ticks, want)
					}
				}
				run("hourly", hourly, 1)
				run("hourly", hourly, 1)
				for range 3 {
					run("daily", daily, 1)
				}
				run("hourly", hourly, 1)
				time.Sleep(3 * time.Hour)
				run("hourly", hourly, 4) // what was missed since
			})
		})
	}
}

func TestTicks_OneThatIsDueJustBeforeTheNextRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran, at := new(book), nextTick(time.Now())
		time.Sleep(time.Until(nextTick(at)) - time.Microsecond)
		if err := ticks(t, memlocker.New(), 0, ran.work(0)).Run(t.Context(), at); err != nil {
			t.Error(err)
		}
		ran.wantEach(t, at, at)
	})
}

// A machine may sleep while its instance waits for the run of another one.
func TestTicks_OneWhoseRecordMayBeOverIsNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ran, at := memlocker.New(), new(book), nextTick(time.Now())
		time.Sleep(time.Until(at))
		for range 2 {
			if err := ticks(t, store.Peer(), 3, ran.work(0)).Run(t.Context(), at); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		}
		ran.wantEach(t, at, at)
	})
}

// A timer may seem to fire too early. A run that is late is not taken for that.
func TestTicks_ATimerThatFiresEarlyServesItsOwnTick(t *testing.T) {
	for early, want := range map[time.Duration]int{0: 1, 50 * time.Millisecond: 1, 300 * time.Millisecond: 0} {
		synctest.Test(t, func(t *testing.T) {
			ran, at := new(book), nextTick(time.Now())
			ticks(t, memlocker.New(), 0, ran.work(0)).RunLatest(t.Context(), at.Add(-early))
			if n := len(ran.ticks); n != 1 || ran.ticks[0].Equal(at) != (want == 1) {
				t.Errorf("%v early: ran %v, want %v: %d", early, ran.ticks, at, want)
			}
		})
	}
}

// The first tick of a job is recorded for ever. A process that dies meanwhile
// must not leave its mark there.
func TestTicks_AnInterruptedStartIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, guard.WithAtMostOnce())
		g.Crash(guard.Key("tick", "report", "first"))
		ran, at := new(book), nextTick(time.Now())
		all, err := jobguard.NewTicks(&jobguard.Ticks{
			Guard: g.Guard, Name: "report", Spec: "@every 2s", Next: nextTick, Work: ran.work(0), CatchUp: 3,
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Until(at))
			if err := all.Run(t.Context(), at); err != nil {
				t.Error(err)
			}
			at = nextTick(at)
		}
		if len(ran.ticks) != 3 {
			t.Errorf("ran %v, want three", ran.ticks)
		}
	})
}

// A tick of which nobody knows whether it has run keeps the later ones back.
func TestTicks_AnErrorOfTheStoreLosesNoTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ran := memlocker.New(), new(book)
		first := nextTick(time.Now())
		time.Sleep(time.Until(first))
		var mend func()
		all := ticks(t, store.Peer(), 10, func(ctx context.Context) error {
			at, _ := jobguard.TickOf(ctx)
			if at.Equal(first.Add(interval)) && mend == nil {
				mend = store.Break()
			}
			return ran.work(0)(ctx)
		})
		if err := all.Run(t.Context(), first); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * interval)
		if err := all.Run(t.Context(), first.Add(3*interval)); err == nil || len(ran.ticks) != 2 {
			t.Errorf("while the store is silent: %v, ran %v", err, ran.ticks)
		}
		time.Sleep(40 * time.Second) // for as long the guard tries to record the second tick
		mend()
		time.Sleep(30 * time.Second)
		ran.ticks = nil
		if err := all.Run(t.Context(), first.Add(10*interval)); err != nil {
			t.Error(err)
		}
		ran.wantEach(t, first.Add(interval), first.Add(10*interval)) // the first of them again: it was not recorded
	})
}

// attempts counts the tries that are sent.
type attempts struct {
	guard.NopObserver

	n int
}

func (a *attempts) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) {
	a.n += r.Attempts
}

func TestTicks_NothingIsSentBeforeTheFirstTick(t *testing.T) {
	sent := new(attempts)
	ticks(t, memlocker.New(), 3, func(context.Context) error { return nil }, guard.WithObserver(sent))
	if sent.n != 0 {
		t.Errorf("%d tries", sent.n)
	}
}

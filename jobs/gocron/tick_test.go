package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	gocronlock "github.com/go-lockguard/guard/jobs/gocron"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// ticked counts the runs of each tick.
type ticked struct {
	mu   sync.Mutex // guards runs
	runs map[time.Time]int
}

func (r *ticked) job(ctx context.Context) error {
	at, ok := gocronlock.TickOf(ctx)
	if !ok {
		return errors.New("no tick")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs == nil {
		r.runs = map[time.Time]int{}
	}
	r.runs[at.UTC()]++
	return nil
}

// instances runs the job on three instances for a time. Each starts at a moment
// of its own.
func instances(t *testing.T, spec string, length time.Duration, job func(context.Context) error,
	opts ...gocron.SchedulerOption,
) {
	t.Helper()
	store := memlocker.New()
	var all []gocron.Scheduler
	for range 3 {
		s, err := gocron.NewScheduler(opts...)
		if err != nil {
			t.Fatal(err)
		}
		g := testguard.New(t, store.Peer())
		if _, err := gocronlock.AddTick(s, spec, g, "report", job); err != nil {
			t.Fatal(err)
		}
		s.Start()
		all = append(all, s)
		time.Sleep(700 * time.Millisecond)
	}
	time.Sleep(length)
	for _, s := range all {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

func TestAddTick_EachTickRunsOnceOnAllInstances(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(month time.Month, day, hour int) time.Time {
		return time.Date(2000, month, day, hour, 30, 0, 0, berlin)
	}
	for spec, row := range map[string]struct {
		length time.Duration
		want   func(from, to time.Time) (ticks []time.Time)
	}{
		"@every 7s": {10 * time.Minute, func(from, to time.Time) (ticks []time.Time) {
			for n := from.Unix()/7 + 1; time.Unix(n*7, 0).Before(to); n++ {
				ticks = append(ticks, time.Unix(n*7, 0))
			}
			return ticks
		}},
		"15 * * * * *": {10 * time.Minute, func(from, to time.Time) (ticks []time.Time) {
			for at := from.Truncate(time.Minute).Add(15 * time.Second); at.Before(to); at = at.Add(time.Minute) {
				ticks = append(ticks, at)
			}
			return ticks
		}},
		// Clocks in Berlin skip the time from 2:00 to 3:00 on March 26.
		"30 3 25-27 3 *": {120 * 24 * time.Hour, func(_, _ time.Time) []time.Time {
			return []time.Time{at(time.March, 25, 3), at(time.March, 26, 3), at(time.March, 27, 3)}
		}},
		"30 2 25-27 3 *": {120 * 24 * time.Hour, func(_, _ time.Time) []time.Time {
			return []time.Time{at(time.March, 25, 2), at(time.March, 27, 2)}
		}},
	} {
		t.Run(spec, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran, from := new(ticked), time.Now()
				instances(t, spec, row.length, ran.job, gocron.WithLocation(berlin))
				want := row.want(from, time.Now())
				got := slices.SortedFunc(maps.Keys(ran.runs), time.Time.Compare)
				if !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Errorf("ran for %v, want %v", got, want)
				}
				for at, n := range ran.runs {
					if n != 1 {
						t.Errorf("%v: %d runs, want 1", at, n)
					}
				}
			})
		})
	}
}

// Three instances recover the panic of a job. The tick runs on one of them.
func TestAddTick_AJobThatPanicsHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := new(ticked)
		instances(t, "@every 1h", 2*time.Hour, func(ctx context.Context) error {
			_ = ran.job(ctx)
			panic("no paper")
		}, gocron.WithGlobalJobOptions(gocron.WithEventListeners(gocron.AfterJobRunsWithPanic(ignore))))
		for at, n := range ran.runs {
			if n != 1 {
				t.Errorf("%v: %d runs, want 1", at, n)
			}
		}
		if len(ran.runs) != 2 {
			t.Errorf("ran for %d ticks, want 2", len(ran.runs))
		}
	})
}

// ignore is a listener. The type of its first argument is of a module that this
// one does not require.
func ignore[A, B, C any](A, B, C) {}

func TestAddTick_TheJobsContextEndsWithTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		instances(t, "@every 1h", time.Hour, func(ctx context.Context) error {
			<-ctx.Done()
			cause = ctx.Err()
			return cause
		}, gocron.WithStopTimeout(time.Minute))
		if !errors.Is(cause, context.Canceled) {
			t.Errorf("the job ended with %v, want it to be canceled", cause)
		}
	})
}

func TestAddTick_RefusesWhatInstancesCannotAgreeOn(t *testing.T) {
	s, err := gocron.NewScheduler()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Shutdown() }()
	work := func(context.Context) error { return nil }
	g := (*guard.Guard)(nil).With()
	for name, add := range map[string]func() (gocron.Job, error){
		"a bad spec": func() (gocron.Job, error) { return gocronlock.AddTick(s, "x", g, "a", work) },
		"no name":    func() (gocron.Job, error) { return gocronlock.AddTick(s, "@daily", g, "", work) },
		"no job":     func() (gocron.Job, error) { return gocronlock.AddTick(s, "@daily", g, "a", nil) },
		"negative number": func() (gocron.Job, error) {
			return gocronlock.AddTick(s, "@daily", g, "a", work, gocronlock.WithCatchUp(-1))
		},
		"MinHold": func() (gocron.Job, error) {
			return gocronlock.AddTick(s, "@daily", g.With(guard.WithMinHold(time.Second)), "a", work)
		},
	} {
		if _, err := add(); !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%s: got %v, want ErrInvalidOption", name, err)
		}
	}
	if jobs := s.Jobs(); len(jobs) > 0 {
		t.Errorf("%d jobs are left of refused ones", len(jobs))
	}
}

// A night is missed by all instances. The next one that starts makes up for it,
// and not at its next tick.
func TestAddTick_AStartMakesUpForWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ran := memlocker.New(), new(ticked)
		day := func(up time.Duration) {
			s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
			if err != nil {
				t.Fatal(err)
			}
			g, err := guard.New(store.Peer())
			if err != nil {
				t.Fatal(err)
			}
			_, err = gocronlock.AddTick(s, "0 3 * * *", g, "report", ran.job, gocronlock.WithCatchUp(1))
			if err != nil {
				t.Fatal(err)
			}
			s.Start()
			time.Sleep(up)
			if err := errors.Join(s.Shutdown(), g.Close(t.Context())); err != nil {
				t.Error(err)
			}
			time.Sleep(24*time.Hour - up)
		}
		day(4 * time.Hour) // from midnight
		for n := 2; n <= 4; n++ {
			if day(time.Minute); len(ran.runs) != n-1 {
				t.Errorf("%d runs for %d nights", len(ran.runs), n-1)
			}
		}
		for at, n := range ran.runs {
			if n != 1 {
				t.Errorf("%v: %d runs, want 1", at, n)
			}
		}
	})
}

func TestAddTick_ANightlyReportRunsEachNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := new(ticked)
		report := ran.job
		s, err := gocron.NewScheduler()
		if err != nil {
			t.Fatal(err)
		}
		g := testguard.New(t, memlocker.New())

		_, err = gocronlock.AddTick(s, "0 3 * * *", g, "report", report, gocronlock.WithCatchUp(7))
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		time.Sleep(7 * 24 * time.Hour)
		if err := s.Shutdown(); err != nil || len(ran.runs) != 7 {
			t.Errorf("%d runs in 7 nights, %v", len(ran.runs), err)
		}
	})
}

// Each tick runs on one instance. The bill is for the moment of the tick.
func ExampleAddTick() {
	store := memlocker.New() // redislocker.New(rdb) in production
	billed := make(chan bool, 10)
	for _, l := range []guard.Locker{store, store.Peer()} {
		g, err := guard.New(l, guard.WithName("jobs"))
		if err != nil {
			panic(err)
		}
		defer g.Close(context.Background())
		s, err := gocron.NewScheduler()
		if err != nil {
			panic(err)
		}
		defer func() { _ = s.Shutdown() }() // before the guard, because jobs hold keys
		_, err = gocronlock.AddTick(s, "@every 1s", g, "bill", func(ctx context.Context) error {
			_, ok := gocronlock.TickOf(ctx)
			billed <- ok
			return ctx.Err()
		}, gocronlock.WithCatchUp(3))
		if err != nil {
			panic(err)
		}
		s.Start()
	}
	fmt.Println(<-billed)
	// Output: true
}

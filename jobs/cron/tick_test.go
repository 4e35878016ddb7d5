package cronlock_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/go-lockguard/guard"
	cronlock "github.com/go-lockguard/guard/jobs/cron"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// ticked counts the runs of each tick.
type ticked struct {
	mu   sync.Mutex // guards runs
	runs map[time.Time]int
}

func (r *ticked) job(ctx context.Context) error {
	at, ok := cronlock.TickOf(ctx)
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

// wantTicks fails t unless each of the ticks was run once.
func (r *ticked) wantTicks(t *testing.T, want []time.Time) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := slices.SortedFunc(maps.Keys(r.runs), time.Time.Compare)
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("ran for %v, want %v", got, want)
	}
	for at, n := range r.runs {
		if n != 1 {
			t.Errorf("%v: %d runs, want 1", at, n)
		}
	}
}

// instances starts three instances with the job. Each starts at a moment of its
// own.
func instances(t *testing.T, spec string, job cronlock.Func, opts ...cron.Option) (stop func()) {
	t.Helper()
	store := memlocker.New()
	var all []*cron.Cron
	for range 3 {
		c := cron.New(opts...)
		if _, err := cronlock.AddTick(c, spec, newGuard(t, store.Peer()), "report", job); err != nil {
			t.Fatal(err)
		}
		c.Start()
		all = append(all, c)
		time.Sleep(700 * time.Millisecond)
	}
	return func() {
		for _, c := range all {
			<-c.Stop().Done()
		}
	}
}

func TestAddTick_EveryIsTheSameOnAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := new(ticked)
		from := time.Now()
		stop := instances(t, "@every 7s", ran.job)
		time.Sleep(10 * time.Minute)
		stop()
		var want []time.Time
		for at := time.Unix((from.Unix()/7+1)*7, 0); at.Before(time.Now()); at = at.Add(7 * time.Second) {
			want = append(want, at)
		}
		ran.wantTicks(t, want)
	})
}

// Clocks in Berlin skip the time from 2:00 to 3:00 on the last Sunday of March,
// and have it twice on that of October. aroundChanges calls run two days before
// each, in one year. run takes five days.
func aroundChanges(t *testing.T, run func(t *testing.T, berlin *time.Location)) {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, day := range []string{"2000-03-24", "2000-10-27"} {
		synctest.Test(t, func(t *testing.T) {
			from, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(from))
			run(t, berlin)
		})
	}
}

const fiveDays = 5 * 24 * time.Hour

func TestAddTick_TicksAreThoseOfTheSchedulesLocation(t *testing.T) {
	for _, spec := range []string{
		"30 1 * * *", "30 2 * * *", "*/30 2 * * *", "30 3 * * *", "CRON_TZ=Europe/Berlin 30 2 * * *",
	} {
		aroundChanges(t, func(t *testing.T, berlin *time.Location) {
			t.Helper()
			location := berlin
			if strings.Contains(spec, "TZ") {
				location = time.UTC
			}
			schedule, err := cron.ParseStandard(spec)
			if err != nil {
				t.Fatal(err)
			}
			ran, from := new(ticked), time.Now()
			stop := instances(t, spec, ran.job, cron.WithLocation(location))
			time.Sleep(fiveDays)
			stop()
			var want []time.Time
			for at := schedule.Next(from.In(location)); at.Before(time.Now()); at = schedule.Next(at) {
				want = append(want, at)
			}
			if len(want) < 4 {
				t.Fatalf("%q: only %d ticks", spec, len(want))
			}
			ran.wantTicks(t, want)
		})
	}
}

// The tick of a nightly job falls into the hour that is skipped, and into the
// one that comes twice.
func TestAddTick_SummerTimeSkipsATickAndHasOneTwice(t *testing.T) {
	days := map[string]int{}
	aroundChanges(t, func(t *testing.T, berlin *time.Location) {
		t.Helper()
		ran := new(ticked)
		stop := instances(t, "30 2 * * *", ran.job, cron.WithLocation(berlin))
		time.Sleep(fiveDays)
		stop()
		for at, n := range ran.runs {
			days[at.In(berlin).Format(time.DateOnly)] += n
		}
	})
	for day, want := range map[string]int{
		"2000-03-25": 1, "2000-03-26": 0, "2000-03-27": 1, "2000-10-28": 1, "2000-10-29": 2, "2000-10-30": 1,
	} {
		if days[day] != want {
			t.Errorf("%s: %d runs, want %d", day, days[day], want)
		}
	}
}

// Three instances recover the panic of a job. Each tick runs on one of them.
func TestAddTick_AJobThatPanicsHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran, from := new(ticked), time.Now()
		stop := instances(t, "@every 7s", func(ctx context.Context) error {
			_ = ran.job(ctx)
			panic("no paper")
		}, cron.WithChain(cron.Recover(cron.DiscardLogger)))
		time.Sleep(time.Minute)
		stop()
		var want []time.Time
		for at := time.Unix((from.Unix()/7+1)*7, 0); at.Before(time.Now()); at = at.Add(7 * time.Second) {
			want = append(want, at)
		}
		ran.wantTicks(t, want)
	})
}

func TestAddTick_RefusesWhatInstancesCannotAgreeOn(t *testing.T) {
	work := cronlock.Func(func(context.Context) error { return nil })
	odd := cron.New(cron.WithParser(parser{}))
	g := newGuard(t, memlocker.New())
	for name, add := range map[string]func() (cron.EntryID, error){
		"a bad spec":   func() (cron.EntryID, error) { return cronlock.AddTick(cron.New(), "x", g, "a", work) },
		"another kind": func() (cron.EntryID, error) { return cronlock.AddTick(odd, "@daily", g, "a", work) },
		"no name":      func() (cron.EntryID, error) { return cronlock.AddTick(cron.New(), "@daily", g, "", work) },
		"no job":       func() (cron.EntryID, error) { return cronlock.AddTick(cron.New(), "@daily", g, "a", nil) },
		"negative number": func() (cron.EntryID, error) {
			return cronlock.AddTick(cron.New(), "@daily", g, "a", work, cronlock.WithCatchUp(-1))
		},
	} {
		if _, err := add(); !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%s: got %v, want ErrInvalidOption", name, err)
		}
	}
	if n := len(odd.Entries()); n > 0 {
		t.Errorf("%d entries are left of a refused job", n)
	}
}

// parser makes schedules of a kind that package cron does not have.
type parser struct{}

func (parser) Parse(string) (cron.Schedule, error) { return schedule{}, nil }

type schedule struct{}

func (schedule) Next(t time.Time) time.Time { return t.Add(time.Second) }

func TestAddTick_ASkippedTickAndAFailureAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, logs := memlocker.New(), new(bytes.Buffer)
		c := cron.New()
		work := cronlock.Func(func(context.Context) error { return errors.New("no paper") })
		if _, err := cronlock.AddTick(c, "@every 1m", newGuard(t, store, logTo(logs)), "report", work); err != nil {
			t.Fatal(err)
		}
		c.Start()
		time.Sleep(61 * time.Second)
		mend := store.Break()
		time.Sleep(2 * time.Minute)
		mend()
		<-c.Stop().Done()
		for _, want := range []string{
			"level=ERROR", "no paper", "level=WARN msg=\"guard: tick skipped", "tick=2000-01-01",
		} {
			if !strings.Contains(logs.String(), want) {
				t.Errorf("%q is missing in the log:\n%s", want, logs)
			}
		}
	})
}

func TestAddTick_CloseEndsTheWaitForARunElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memlocker.New(), cron.New()
		g := newGuard(t, store.Peer())
		if _, err := cronlock.AddTick(c, "@hourly", g, "report", new(ticked).job); err != nil {
			t.Fatal(err)
		}
		busy := newGuard(t, store.Peer()).With(guard.WithMaxHold(0))
		lease, err := busy.Acquire(t.Context(), guard.Key("job", "report"))
		if err != nil {
			t.Fatal(err)
		}
		c.Start()
		time.Sleep(time.Hour + time.Minute)
		stopped, began := c.Stop(), time.Now()
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-stopped.Done()
		if took := time.Since(began); took > time.Second {
			t.Errorf("Stop took %v after Close", took)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The night is missed by all instances. The first that starts makes up for it,
// and not at its next tick.
func TestAddTick_AStartMakesUpForWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ran := memlocker.New(), new(ticked)
		day := func(up time.Duration) {
			c := cron.New(cron.WithLocation(time.UTC))
			g := newGuard(t, store.Peer())
			_, err := cronlock.AddTick(c, "0 3 * * *", g, "report", ran.job, cronlock.WithCatchUp(1))
			if err != nil {
				t.Fatal(err)
			}
			c.Start()
			time.Sleep(up)
			<-c.Stop().Done()
			time.Sleep(24*time.Hour - up)
		}
		day(4 * time.Hour) // from midnight
		var want []time.Time
		for n := 1; n <= 3; n++ {
			want = append(want, time.Date(2000, 1, n, 3, 0, 0, 0, time.UTC))
			day(time.Minute)
		}
		ran.wantTicks(t, want)
	})
}

func TestAddTick_ANightlyReportRunsEachNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ran := newGuard(t, memlocker.New()), new(ticked)
		report := ran.job
		c := cron.New()

		_, err := cronlock.AddTick(c, "0 3 * * *", g, "report", report, cronlock.WithCatchUp(7))
		if err != nil {
			t.Fatal(err)
		}
		c.Start()
		time.Sleep(7 * 24 * time.Hour)
		<-c.Stop().Done()
		if len(ran.runs) != 7 {
			t.Errorf("%d runs in 7 nights", len(ran.runs))
		}
	})
}

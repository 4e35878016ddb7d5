package cronlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	cronlock "github.com/go-lockguard/guard/jobs/cron"
	"github.com/go-lockguard/guard/locker/memlocker"
)

var scheduler = jobtest.Scheduler{TickOf: cronlock.TickOf, Twice: true, Start: startTick}

func startTick(j jobtest.Job) (stop func() error, err error) {
	c := cron.New(cron.WithLocation(j.Location), cron.WithChain(cron.Recover(cron.DiscardLogger)))
	var opts []cronlock.TickOption
	if j.CatchUp != 0 {
		opts = append(opts, cronlock.WithCatchUp(j.CatchUp))
	}
	if _, err := cronlock.AddTick(c, j.Spec, j.Guard, j.Name, j.Work, opts...); err != nil {
		if n := len(c.Entries()); n > 0 {
			return nil, fmt.Errorf("%d entries are left of a refused job", n)
		}
		return nil, err
	}
	c.Start()
	return func() error {
		<-c.Stop().Done()
		return nil
	}, nil
}

func TestAddTick_TheTable(t *testing.T) { jobtest.RunTicks(t, scheduler) }

func TestAddTick_RefusesAScheduleOfAKindThatPackageCronDoesNotHave(t *testing.T) {
	odd := cron.New(cron.WithParser(parser{}))
	work := cronlock.Func(func(context.Context) error { return nil })
	_, err := cronlock.AddTick(odd, "@daily", newGuard(t, memlocker.New()), "a", work)
	if n := len(odd.Entries()); !errors.Is(err, guard.ErrInvalidOption) || n > 0 {
		t.Errorf("got %v, %d entries; want ErrInvalidOption", err, n)
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
		ran := &jobtest.Ticked{TickOf: cronlock.TickOf}
		if _, err := cronlock.AddTick(c, "@hourly", g, "report", ran.Work); err != nil {
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

func TestAddTick_ANightlyReportRunsEachNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ran := newGuard(t, memlocker.New()), &jobtest.Ticked{TickOf: cronlock.TickOf}
		report := ran.Work
		c := cron.New()

		_, err := cronlock.AddTick(c, "0 3 * * *", g, "report", report, cronlock.WithCatchUp(7))
		if err != nil {
			t.Fatal(err)
		}
		c.Start()
		time.Sleep(7 * 24 * time.Hour)
		<-c.Stop().Done()
		if n := len(ran.Ticks(t)); n != 7 {
			t.Errorf("%d runs in 7 nights", n)
		}
	})
}

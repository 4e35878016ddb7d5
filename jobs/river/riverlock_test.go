package riverlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	riverlock "github.com/go-lockguard/guard/jobs/river"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = guard.WithLogger(slog.New(slog.DiscardHandler))

func jobOf(order int) *river.Job[PayArgs] {
	return &river.Job[PayArgs]{JobRow: &rivertype.JobRow{Kind: "pay"}, Args: PayArgs{order}}
}

func key(job *river.Job[PayArgs]) string {
	if job.Args.Order == 0 {
		return guard.Key("order", "")
	}
	return guard.Key("order", job.Args.Order)
}

func worker(fn func(context.Context) error) river.Worker[PayArgs] {
	return river.WorkFunc(func(ctx context.Context, _ *river.Job[PayArgs]) error { return fn(ctx) })
}

func done(context.Context) error { return nil }

func TestAJobThatHasNotRunIsSnoozed(t *testing.T) {
	g := guardtest.New(t, silent)
	w := riverlock.Key(g.Guard, key, worker(done))
	release := g.Hold("order:7")
	held := w.Work(t.Context(), jobOf(7))
	release()
	mend := g.Break()
	down := w.Work(t.Context(), jobOf(7))
	mend()
	for _, err := range []error{held, down} {
		snooze := (*rivertype.JobSnoozeError)(nil)
		if !errors.As(err, &snooze) || snooze.Duration < time.Second || snooze.Duration > 90*time.Second {
			t.Errorf("got %v", err)
		}
	}
}

func TestAJobThatRanIsNotSnoozed(t *testing.T) {
	g := guardtest.New(t, silent)
	for _, own := range []error{errors.New("no money"), guard.ErrNotAcquired, river.JobCancel(errors.New("void"))} {
		err := riverlock.Key(g.Guard, key, worker(func(context.Context) error {
			return own
		})).Work(t.Context(), jobOf(7))
		if !errors.Is(err, own) || errors.Is(err, river.JobSnooze(0)) {
			t.Errorf("got %v, want %v", err, own)
		}
	}
	if err := riverlock.Key(g.Guard, key, worker(done)).Work(t.Context(), jobOf(0)); !errors.Is(err,
		guard.ErrInvalidKey) {
		t.Errorf("no key: got %v", err)
	}
}

func TestALostLeaseEndsTheJobAndIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, silent)
		err := riverlock.Key(g.Guard, key, worker(func(ctx context.Context) error {
			g.Lose("order:7")
			<-ctx.Done()
			return nil
		})).Work(t.Context(), jobOf(7))
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAJobMayWaitForItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		time.AfterFunc(10*time.Second, g.Hold("order:7"))
		w := riverlock.Key(g.Guard, key, worker(done), riverlock.WithWait(time.Minute))
		if err := w.Work(t.Context(), jobOf(7)); err != nil {
			t.Error(err)
		}
	})
}

// slow is a worker with a timeout of its own.
type slow struct {
	PayWorker

	limit func() time.Duration
}

func (s slow) Timeout(*river.Job[PayArgs]) time.Duration { return s.limit() }

func TestATimeoutBeyondMaxHoldIsRefusedAtStartUp(t *testing.T) {
	g := guardtest.New(t)
	for _, c := range []struct {
		limit   func() time.Duration
		maxHold time.Duration
		refused bool
	}{
		{func() time.Duration { return time.Hour }, time.Minute, true},
		{func() time.Duration { return -1 }, time.Minute, true},
		{func() time.Duration { return 0 }, time.Minute, false},
		{func() time.Duration { return time.Minute }, time.Minute, false},
		{func() time.Duration { return -1 }, 0, false},
		{func() time.Duration { panic("an empty job") }, time.Minute, false},
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if errors.Is(err, guard.ErrInvalidOption) != c.refused || c.refused &&
					!strings.Contains(fmt.Sprint(err), `"pay"`) {
					t.Errorf("MaxHold %v: got %v, refused: want %t", c.maxHold, err, c.refused)
				}
			}()
			riverlock.Key(g.With(guard.WithMaxHold(c.maxHold)), key, river.Worker[PayArgs](slow{limit: c.limit}))
		}()
	}
}

func TestATimeoutOfTheClientBeyondMaxHoldIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	g := guardtest.New(t, guard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	run := func(ctx context.Context) int {
		log.Reset()
		w := riverlock.Key(g.Guard, key, worker(done))
		for range 3 {
			if err := w.Work(ctx, jobOf(7)); err != nil {
				t.Error(err)
			}
		}
		return strings.Count(log.String(), "longer than MaxHold")
	}
	fits, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if run(t.Context()) != 1 || run(fits) != 0 {
		t.Errorf("the log:\n%s", &log)
	}
}

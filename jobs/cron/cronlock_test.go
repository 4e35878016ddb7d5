package cronlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/testguard"
	cronlock "github.com/go-lockguard/guard/jobs/cron"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logTo returns an option for a guard that logs to the buffer.
func logTo(b *bytes.Buffer) guard.Option {
	return guard.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

func newGuard(t *testing.T, l guard.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.Patient(t, l, opts...)
}

func TestASkippedTickIsTold(t *testing.T) {
	var log bytes.Buffer
	waits := &jobtest.Waits{}
	g := guardtest.New(t, logTo(&log), guard.WithName("reports"), guard.WithObserver(waits))
	skipped := cronlock.Key(g.Guard, "k")(cronlock.Func(func(context.Context) error {
		t.Error("the job ran")
		return nil
	}))
	release := g.Hold("k")
	skipped.Run()
	jobtest.ExpectLog(t, &log, "level=INFO", "tick skipped: the job runs elsewhere", "guard=reports",
		"key_hash="+guard.KeyHash("k"))
	release()
	mend := g.Break()
	defer mend()
	skipped.Run()
	jobtest.ExpectLog(t, &log, "level=WARN", "tick skipped: nobody knows", "unavailable")
	if len(waits.Errs) != 2 || !errors.Is(waits.Errs[0], guard.ErrNotAcquired) ||
		!errors.Is(waits.Errs[1], guard.ErrUnavailable) {
		t.Errorf("the observer was told %v", waits.Errs)
	}
}

func TestALostLeaseEndsTheContextOfTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := guardtest.New(t, logTo(&log))
		cronlock.Key(g.Guard, "k")(cronlock.Func(func(ctx context.Context) error {
			g.Lose("k")
			<-ctx.Done()
			return context.Cause(ctx)
		})).Run()
		jobtest.ExpectLog(t, &log, "level=ERROR", "the job has failed", "lease lost")
	})
}

func TestOnlyAJobWithAContextHasAMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, guard.WithLogger(slog.New(slog.DiscardHandler)))
		wrap := cronlock.Key(g.Guard, "k")
		began := time.Now()
		wrap(cronlock.Func(func(ctx context.Context) error { <-ctx.Done(); return nil })).Run()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the context ended after %v", took)
		}
		wrap(cron.FuncJob(func() {
			time.Sleep(time.Hour)
			if err := g.With(guard.WithMaxWait(0)).Do(t.Context(), "k",
				func(context.Context) error { return nil }); err == nil {
				t.Error("a plain job has lost its key")
			}
		})).Run()
	})
}

func TestAFailedJobAndAPanicAreNotSwallowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := guardtest.New(t, logTo(&log))
		cronlock.Key(g.Guard, "a")(cronlock.Func(func(context.Context) error { return errors.New("no paper") })).Run()
		jobtest.ExpectLog(t, &log, "level=ERROR", "no paper")
		defer func() {
			if recover() == nil {
				t.Error("the panic did not pass through")
			}
			again := func(context.Context) error { return nil }
			for _, next := range []bool{false, true} {
				time.Sleep(499 * time.Millisecond) // another clock may be so late, and the next tick comes after 1 s
				if ran, err := g.TryDo(t.Context(), "b", again); ran != next || err != nil {
					t.Errorf("after the panic: ran %v, %v; want %v", ran, err, next)
				}
			}
		}()
		cronlock.Key(g.Guard, "b")(cron.FuncJob(func() { panic("no paper") })).Run()
	})
}

func TestAJobMayWaitForTheKeyOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		release := g.Hold("k")
		time.AfterFunc(10*time.Second, release)
		ran := false
		cronlock.Key(g.Guard, "k", cronlock.WithWait(time.Minute))(cron.FuncJob(func() { ran = true })).Run()
		if !ran {
			t.Error("it did not wait")
		}
	})
}

func TestAFuncWithoutAKeyIsAJob(t *testing.T) {
	ran := false
	cronlock.Func(func(ctx context.Context) error { ran = true; return ctx.Err() }).Run()
	if !ran {
		t.Error("it did not run")
	}
}

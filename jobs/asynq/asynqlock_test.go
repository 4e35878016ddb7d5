package asynqlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	asynqlock "github.com/go-lockguard/guard/jobs/asynq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = guard.WithLogger(slog.New(slog.DiscardHandler))

func key(t *asynq.Task) string { return guard.Key("order", string(t.Payload())) }

func process(ctx context.Context, m asynq.MiddlewareFunc, fn asynq.HandlerFunc) error {
	return m(fn).ProcessTask(ctx, asynq.NewTask("order:pay", []byte("7")))
}

func done(context.Context, *asynq.Task) error { return nil }

func TestATaskThatHasNotRunIsNoFailure(t *testing.T) {
	g := guardtest.New(t, quiet)
	m := asynqlock.Key(g.Guard, key, asynqlock.WithWait(0))
	release := g.Hold("order:7")
	held := process(t.Context(), m, done)
	release()
	mend := g.Break()
	down := process(t.Context(), m, done)
	mend()
	for _, err := range []error{held, down} {
		ours := errors.Is(err, guard.ErrNotAcquired) || errors.Is(err, guard.ErrUnavailable)
		if !ours || asynqlock.IsFailure(err) {
			t.Errorf("got %v, a failure: %t", err, asynqlock.IsFailure(err))
		}
		if d := asynqlock.RetryDelay(3, err, nil); d < time.Second || d > 90*time.Second {
			t.Errorf("it comes back after %v", d)
		}
	}
	if asynqlock.IsFailure(nil) {
		t.Error("nil is a failure")
	}
}

func TestATaskThatRanIsAFailure(t *testing.T) {
	g := guardtest.New(t, quiet)
	m := asynqlock.Key(g.Guard, key)
	for _, own := range []error{errors.New("no money"), guard.ErrNotAcquired, asynq.SkipRetry} {
		err := process(t.Context(), m, func(context.Context, *asynq.Task) error { return own })
		if !errors.Is(err, own) || !asynqlock.IsFailure(err) {
			t.Errorf("got %v, a failure: %t", err, asynqlock.IsFailure(err))
		}
		if d := asynqlock.RetryDelay(0, err, nil); d < 15*time.Second {
			t.Errorf("it comes back after %v, not when asynq says", d)
		}
	}
	bad := asynqlock.Key(g.Guard, func(*asynq.Task) string { return guard.Key("order", "") })
	if err := process(t.Context(), bad, done); !errors.Is(err, guard.ErrInvalidKey) || !asynqlock.IsFailure(err) {
		t.Errorf("no key: got %v", err)
	}
}

func TestALostLeaseEndsTheTaskAndIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, quiet)
		err := process(t.Context(), asynqlock.Key(g.Guard, key), func(ctx context.Context, _ *asynq.Task) error {
			g.Lose("order:7")
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, guard.ErrLeaseLost) || !asynqlock.IsFailure(err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestATaskWaitsForAKeyThatComesSoon(t *testing.T) {
	const turn = 300 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, quiet)
		m, start := asynqlock.Key(g.Guard, key), time.Now()
		const tasks = 6
		ended := make(chan error, tasks)
		for range tasks {
			go func() {
				ended <- process(t.Context(), m, func(context.Context, *asynq.Task) error {
					time.Sleep(turn)
					return nil
				})
			}()
		}
		for range tasks {
			if err := <-ended; err != nil {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		}
		if took := time.Since(start); took > (tasks+1)*turn {
			t.Errorf("%d tasks of %v took %v", tasks, turn, took)
		}
	})
}

func TestATaskHoldsItsWorkerForAMomentOnly(t *testing.T) {
	for name, c := range map[string]struct {
		opts []asynqlock.Option
		want time.Duration
	}{
		"by default": {want: time.Second},
		"not at all": {opts: []asynqlock.Option{asynqlock.WithWait(0)}},
		"as told":    {opts: []asynqlock.Option{asynqlock.WithWait(3 * time.Second)}, want: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guardtest.New(t, quiet)
				release := g.Hold("order:7")
				m := asynqlock.Key(g.Guard, key, c.opts...)
				start := time.Now()
				err := process(t.Context(), m, done)
				if took := time.Since(start); took < c.want || took > c.want+100*time.Millisecond {
					t.Errorf("it held its worker for %v, want %v", took, c.want)
				}
				if !errors.Is(err, guard.ErrNotAcquired) || asynqlock.IsFailure(err) {
					t.Errorf("got %v", err)
				}
				release()
			})
		})
	}
}

func TestATimeBeyondMaxHoldIsToldOncePerType(t *testing.T) {
	var log bytes.Buffer
	g := guardtest.New(t, guard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	run := func(typ string, limit time.Duration, opts ...guard.Option) int {
		log.Reset()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		h := asynqlock.Key(g.With(opts...), key)(asynq.HandlerFunc(done))
		for range 3 {
			if err := h.ProcessTask(ctx, asynq.NewTask(typ, []byte("7"))); err != nil {
				t.Error(err)
			}
		}
		return strings.Count(log.String(), "longer than MaxHold")
	}
	if n := run("slow", time.Hour); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, &log)
	}
	if run("quick", time.Minute) != 0 || run("free", time.Hour, guard.WithMaxHold(0)) != 0 {
		t.Errorf("told of a time that fits:\n%s", &log)
	}
}

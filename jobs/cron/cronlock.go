package cronlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard"
)

// minHold is shorter than the time between two ticks, which is at least 1 s.
const minHold = 500 * time.Millisecond

// Func is a [cron.Job] with a context and an error. The error is logged.
// Wrapped by [Key] it runs under the context of its lease.
type Func func(ctx context.Context) error

// Run implements [cron.Job] for a Func without a key. Its context never ends.
// Run blocks until the job returns.
func (f Func) Run() {
	if err := f(unbounded()); err != nil {
		slog.Default().Error("cronlock: the job has failed", "error", err)
	}
}

// unbounded returns the context of a tick, because cron has none.
func unbounded() context.Context {
	return context.Background() //nolint:forbidigo // cron gives its jobs no context
}

// Option changes one setting of [Key].
type Option func(*jobguard.Settings)

// WithWait lets a job wait for its key for at most d instead of skipping the
// tick. Then all instances run the tick, one after the other. It is for
// different jobs that share a key. The default is 0. [Key] panics if d is below
// 1 ms, but not 0.
func WithWait(d time.Duration) Option { return func(s *jobguard.Settings) { s.Wait = d } }

// Key returns a wrapper that runs the job while it holds key. It skips the tick
// if another holder has key. It makes one attempt, and does not wait unless
// [WithWait] says so.
//
// A nil g is the default guard, looked up at each tick. For a job's own times
// pass g.With(...). The guard gets a MinHold of 500 ms if it has none.
//
// The reason for a skipped tick goes to the guard's log. It is
// [guard.ErrNotAcquired], [guard.ErrUnavailable], [guard.ErrClosed] or a
// mistake such as [guard.ErrInvalidKey]. A panic of the job passes through
// after the release. The wrapper is safe for concurrent use.
func Key(g *guard.Guard, key string, opts ...Option) cron.JobWrapper {
	timed := jobguard.Apply(opts).Guard(g)
	if timed.MinHold() == 0 {
		timed = timed.With(guard.WithMinHold(minHold))
	}
	return func(j cron.Job) cron.Job {
		t := tick{guard: timed, key: key, work: asFunc(j)}
		if _, stoppable := j.(Func); !stoppable {
			t.guard = timed.With(guard.WithMaxHold(0))
		}
		return t
	}
}

// asFunc returns j as a Func. A plain job has no context and no error.
func asFunc(j cron.Job) Func {
	if f, ok := j.(Func); ok {
		return f
	}
	return func(context.Context) error { j.Run(); return nil }
}

// A tick is a job with its key.
type tick struct {
	guard *guard.Guard
	key   string
	work  Func
}

// Run implements [cron.Job].
func (t tick) Run() {
	ctx := unbounded()
	err := jobguard.Do(ctx, t.guard, t.key, t.work)
	switch {
	case err == nil:
	case !guard.Ran(err):
		jobguard.LogSkipped(ctx, t.guard, t.key, err)
	default:
		t.guard.Logger().LogAttrs(ctx, slog.LevelError, "guard: the job has failed",
			jobguard.About(t.guard, t.key, err)...)
	}
}

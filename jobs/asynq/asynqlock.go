package asynqlock

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard"
)

// Option changes one setting of [Key].
type Option func(*jobguard.Settings)

// WithWait lets a task wait for its key for at most d before it comes back
// later. The task holds its worker meanwhile. The default is 0. [Key] panics if
// d is below 1 ms, but not 0.
func WithWait(d time.Duration) Option { return func(s *jobguard.Settings) { s.Wait = d } }

// Key returns a middleware that runs a task while it holds the key that the
// given function makes of the task. The function must make the key with
// guard.Key, never by concatenation. The task's context is that of the lease.
// The middleware makes one attempt, and does not wait unless [WithWait] says
// so.
//
// A nil g is the default guard, looked up at each task. For other settings pass
// g.With(...). Key panics if key is nil.
//
// A task that does not get its key ends with an error that [IsFailure] does not
// count. The error Is [guard.ErrNotAcquired], [guard.ErrUnavailable] or
// [guard.ErrClosed], and the handler has not run. An empty key is
// [guard.ErrInvalidKey], and a lost lease is [guard.ErrLeaseLost]. Both count
// as failures. The middleware is safe for concurrent use.
func Key(g *guard.Guard, key func(*asynq.Task) string, opts ...Option) asynq.MiddlewareFunc {
	if key == nil {
		panic("asynqlock: the key function is nil")
	}
	k := &keyed{guard: jobguard.Apply(opts).Guard(g), key: key}
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			k.times.Warn(ctx, k.guard, t.Type(), "give the task asynq.Timeout, or the guard WithMaxHold")
			return jobguard.Do(ctx, k.patient(ctx), key(t), func(ctx context.Context) error {
				return next.ProcessTask(ctx, t)
			})
		})
	}
}

type keyed struct {
	guard *guard.Guard
	key   func(*asynq.Task) string
	times jobguard.LongTimes
}

// lastWait is the wait of a task's last attempt if the task has no deadline.
const lastWait = 15 * time.Minute

// patient returns the guard for an attempt. The last attempt waits, because
// asynq archives a task whose last attempt is refused.
func (k *keyed) patient(ctx context.Context) *guard.Guard {
	retried, known := asynq.GetRetryCount(ctx)
	limit, _ := asynq.GetMaxRetry(ctx)
	if !known || retried < limit {
		return k.guard
	}
	wait := lastWait
	if end, ok := ctx.Deadline(); ok {
		wait = time.Until(end) / 2
	}
	return k.guard.With(guard.WithMaxWait(max(wait, k.guard.MaxWait(), time.Millisecond)))
}

// IsFailure is an asynq.Config.IsFailure. It does not count a task whose key
// was held or whose store gave no answer, because its handler has not run. If
// you have your own function, count a failure only if both do. IsFailure is
// safe for concurrent use.
func IsFailure(err error) bool {
	refused := (*jobguard.RefusedError)(nil)
	return err != nil && !errors.As(err, &refused)
}

// RetryDelay is an asynq.Config.RetryDelayFunc. A task whose key was held comes
// back when it is likely to get it, after 1 s to 90 s with jitter. For all
// other tasks RetryDelay is asynq.DefaultRetryDelayFunc. If you have your own
// function, call RetryDelay where [IsFailure] is false. RetryDelay is safe for
// concurrent use.
func RetryDelay(n int, err error, t *asynq.Task) time.Duration {
	if refused := (*jobguard.RefusedError)(nil); errors.As(err, &refused) {
		return refused.After
	}
	return asynq.DefaultRetryDelayFunc(n, err, t)
}

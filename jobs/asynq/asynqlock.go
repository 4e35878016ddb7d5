package asynqlock

import (
	"context"
	"errors"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard"
)

// Option changes one setting of [Key].
type Option func(*jobguard.Settings)

// WithWait lets a task wait for its key for at most d before it comes back
// later. The task holds its worker meanwhile. With 0 it comes back at once. By
// default it waits for a moment, see [Key]. Key panics if d is below 1 ms, but
// not 0.
func WithWait(d time.Duration) Option { return func(s *jobguard.Settings) { s.Wait = d } }

// Key returns a middleware that runs a task while it holds the key that the
// given function makes of the task. The function must make the key with
// guard.Key, never by concatenation. The task's context is that of the lease.
//
// A task whose key is held waits for a moment first, at most 1 s, and holds its
// worker meanwhile. It does not wait if the turns of that key take so long that
// its own would not come. If others got the key in this process during that
// second, it waits for another, but not longer than 5 s in all. [WithWait]
// changes that.
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
	s, rounds := jobguard.Apply(opts), 1
	if len(opts) == 0 {
		s.Wait, rounds = moment, moments
	}
	k := &keyed{guard: s.Guard(g), key: key, rounds: rounds, seed: maphash.MakeSeed()}
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			k.times.Warn(ctx, k.guard, t.Type(), "give the task asynq.Timeout, or the guard WithMaxHold")
			return k.process(ctx, t, next)
		})
	}
}

// What a task waits for its key on its worker by default. A task that comes
// back costs more: asynq looks for such tasks every 5 s.
const (
	moment  = time.Second
	moments = 5
)

type keyed struct {
	guard  *guard.Guard
	key    func(*asynq.Task) string
	times  jobguard.LongTimes
	rounds int // attempts of a task, each with the guard's MaxWait

	// turns counts the tasks that got their keys, by a hash of the key. Two keys
	// with one counter cost a task a moment of waiting.
	turns [64]atomic.Uint32
	seed  maphash.Seed
}

// process runs t while it holds its key. A task whose key is held tries again
// while the key goes from task to task.
func (k *keyed) process(ctx context.Context, t *asynq.Task, next asynq.Handler) (err error) {
	g, key, last := k.guard, k.key(t), lastAttempt(ctx)
	if last {
		g = k.patient(ctx)
	}
	turns := &k.turns[maphash.String(k.seed, key)%uint64(len(k.turns))]
	for range k.rounds {
		seen := turns.Load()
		err = jobguard.Do(ctx, g, key, func(ctx context.Context) error {
			turns.Add(1)
			return next.ProcessTask(ctx, t)
		})
		refused := (*jobguard.RefusedError)(nil)
		if !errors.As(err, &refused) || !refused.Held() || last || turns.Load() == seen {
			break
		}
	}
	return err
}

// lastAttempt reports whether asynq archives a task that is refused now.
func lastAttempt(ctx context.Context) bool {
	retried, known := asynq.GetRetryCount(ctx)
	limit, _ := asynq.GetMaxRetry(ctx)
	return known && retried >= limit
}

// lastWait is the wait of a task's last attempt if the task has no deadline.
const lastWait = 15 * time.Minute

// patient returns the guard for the last attempt, which waits long.
func (k *keyed) patient(ctx context.Context) *guard.Guard {
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

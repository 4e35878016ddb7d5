package riverlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard"
)

// Option changes one setting of [Key].
type Option func(*jobguard.Settings)

// WithWait lets a job wait for its key for at most d before it is snoozed. The
// job holds its worker meanwhile, and its timeout runs. The default is 0. [Key]
// panics if d is below 1 ms, but not 0.
func WithWait(d time.Duration) Option { return func(s *jobguard.Settings) { s.Wait = d } }

// Key returns a worker that runs each job while it holds the key that the given
// function makes of the job. The function must make the key with guard.Key,
// never by concatenation. The job's context is that of the lease. The worker
// makes one attempt, and does not wait unless [WithWait] says so.
//
// A nil g is the default guard, looked up at each job. For other settings pass
// g.With(...).
//
// A job that does not get its key ends with river.JobSnooze until it is likely
// to get it, after 1 s to 90 s with jitter. An empty key is
// [guard.ErrInvalidKey], and a lost lease is [guard.ErrLeaseLost]. Both count
// as failures.
//
// Key panics if key or worker is nil, or if the worker's Timeout is longer than
// MaxHold. It calls Timeout with an empty job, and skips the check if that
// panics. The returned worker is as safe for concurrent use as the given one.
func Key[T river.JobArgs](g *guard.Guard, key func(*river.Job[T]) string, worker river.Worker[T],
	opts ...Option,
) river.Worker[T] {
	if key == nil || worker == nil {
		panic("riverlock: the key function or the worker is nil")
	}
	k := &keyed[T]{Worker: worker, guard: jobguard.Apply(opts).Guard(g), key: key}
	limit := k.guard.MaxHold()
	if d := timeout(worker); limit > 0 && (d < 0 || d > limit) {
		panic(fmt.Errorf("%w: riverlock: the worker of %q has a Timeout of %v (below 0 is none), longer "+
			"than MaxHold, %v: "+
			"change one of them, the latter by guard.WithMaxHold", guard.ErrInvalidOption, (*new(T)).Kind(), d, limit))
	}
	return k
}

// timeout returns the worker's Timeout for an empty job, or 0 if that call
// panics.
func timeout[T river.JobArgs](worker river.Worker[T]) (d time.Duration) {
	defer func() {
		if recover() != nil {
			d = 0
		}
	}()
	return worker.Timeout(&river.Job[T]{JobRow: &rivertype.JobRow{}})
}

type keyed[T river.JobArgs] struct {
	river.Worker[T]

	guard  *guard.Guard
	key    func(*river.Job[T]) string
	warned sync.Once
}

// Work implements [river.Worker].
func (k *keyed[T]) Work(ctx context.Context, job *river.Job[T]) error {
	k.warn(ctx, job)
	err := jobguard.Do(ctx, k.guard, k.key(job), func(ctx context.Context) error { return k.Worker.Work(ctx, job) })
	if refused := (*jobguard.RefusedError)(nil); errors.As(err, &refused) {
		return river.JobSnooze(refused.After)
	}
	return err
}

// warn logs once that the client's timeout is longer than MaxHold.
func (k *keyed[T]) warn(ctx context.Context, job *river.Job[T]) {
	limit := k.guard.MaxHold()
	end, ok := ctx.Deadline()
	if limit == 0 || ok && time.Until(end) <= limit {
		return
	}
	k.warned.Do(func() {
		k.guard.Logger().WarnContext(ctx, "guard: the job's timeout is longer than MaxHold, which ends it: "+
			"change river.Config.JobTimeout, or give the guard WithMaxHold",
			slog.String("guard", k.guard.Name()), slog.String("kind", job.Kind), slog.Duration("max_hold", limit))
	})
}

package gocronlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard"
)

// minHold is shorter than the time between two runs, which is rarely below 1 s.
const minHold = 500 * time.Millisecond

// Locker is a [gocron.Locker]. Its methods are safe for concurrent use.
type Locker struct{ guard *guard.Guard }

// NewLocker returns a Locker for gocron.WithDistributedLocker.
//
// A nil g is the default guard, looked up at each run. The key stays taken for
// at least 500 ms, even if the job is quicker. So an instance whose clock is
// late by less finds it taken. If clocks differ by more, give the guard a
// longer [guard.WithMinHold]. It must be shorter than the time between two
// runs. A guard that has one keeps it. MaxHold does not apply, because gocron
// has no way to stop a job.
func NewLocker(g *guard.Guard) *Locker {
	if g.MinHold() == 0 {
		g = g.With(guard.WithMinHold(minHold))
	}
	return &Locker{g.With(guard.WithMaxHold(0))}
}

// Lock implements [gocron.Locker] with the key guard.Key("job", job). It blocks
// for one attempt, and does not wait for a key that is held. gocron skips the
// run if Lock fails. The error Is [guard.ErrNotAcquired],
// [guard.ErrUnavailable], [guard.ErrClosed] or a mistake such as
// [guard.ErrInvalidKey], and is logged.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	key := guard.Key("job", job)
	lease, err := l.guard.TryAcquire(ctx, key)
	if err != nil {
		jobguard.LogSkipped(ctx, l.guard, key, err, slog.String("job", job))
		return nil, err
	}
	return lock{lease}, nil
}

type lock struct{ *guard.Lease }

// Unlock implements [gocron.Lock].
func (l lock) Unlock(ctx context.Context) error { return l.Release(ctx) }

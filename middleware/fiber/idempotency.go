package lockmw

import (
	"context"
	"errors"
	"fmt"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/leasequeue"
	"github.com/go-lockguard/guard/outcome"
)

// IdempotencyLock is a Lock for fiber's idempotency middleware that works
// across several instances of a service. Make it with [NewIdempotencyLock].
// IdempotencyLock is safe for concurrent use.
type IdempotencyLock struct {
	guard  *guard.Guard
	leases leasequeue.Queue // by key
}

var _ idempotency.Locker = (*IdempotencyLock)(nil)

// NewIdempotencyLock returns a lock that serves requests with the same
// Idempotency-Key one at a time, across all instances. Give the middleware a
// Storage that the instances share, too:
//
//	app.Use(idempotency.New(idempotency.Config{
//		Lock:    lockmw.NewIdempotencyLock(g),
//		Storage: storage,
//	}))
//
// A nil g is the default guard. The middleware has no context to end, so a
// handler does not learn that the lease was lost. Set a MaxHold that is longer
// than any request takes.
func NewIdempotencyLock(g *guard.Guard) *IdempotencyLock {
	return &IdempotencyLock{guard: g}
}

// Lock waits for key, for at most the guard's MaxWait. Its error is one of the
// guard's. The error is also a *fiber.Error with the status of package outcome,
// for fiber's error handler.
func (l *IdempotencyLock) Lock(key string) error {
	ctx := context.Background() //nolint:forbidigo // the interface has none; MaxWait and MaxHold end all
	lease, err := l.guard.Acquire(ctx, guard.Key("idempotency", key))
	if err != nil {
		o, _ := outcome.Of(ctx, err)
		return fmt.Errorf("%w: %w", fiber.NewError(o.Status, o.Detail), err)
	}
	l.leases.Put(key, lease)
	return nil
}

// Unlock releases key. Unlock returns [guard.ErrLeaseLost] if the lease was
// lost before. Another instance may then have run the same request. Unlock
// blocks for at most a second.
func (l *IdempotencyLock) Unlock(key string) error {
	lease := l.leases.Take(key)
	if lease == nil {
		return errors.New("lockmw: Unlock of an idempotency key that is not locked")
	}
	return lease.Release(context.WithoutCancel(lease.Context()))
}

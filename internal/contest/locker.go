// Package contest is the workload of torture and of guardctl prove: callers
// that want the same few keys again and again, and note what happens. Package
// judge judges their notes.
package contest

import (
	"context"
	"errors"
	"time"
)

// Locker is a lock library that is set up. Its methods are safe for concurrent use.
type Locker interface {
	// Acquire waits for key for at most wait, by the library's own means. If
	// wait is 0 it tries once. The end of ctx ends the wait, never the lease.
	Acquire(ctx context.Context, key string, wait time.Duration) (Lease, error)

	// Close ends the library's own connections and goroutines. It waits for
	// them if the library can, at most until ctx ends.
	Close(ctx context.Context) error
}

// Moded is a Locker with leases that need not be alone, and with several keys
// at once. Its methods block and end as Acquire does.
type Moded interface {
	// AcquireLimited waits for a lease that at most limit may have at once.
	// Shared leases have the limit locker.NoLimit and no token.
	AcquireLimited(ctx context.Context, key string, wait time.Duration, limit int) (Lease, error)

	// AcquireAll runs fn under a lease of each key, in the order of keys, and
	// releases them. An error before fn runs means that it has none of them.
	// The Release of such a lease does nothing.
	AcquireAll(ctx context.Context, keys []string, wait time.Duration, fn func([]Lease)) error
}

// Recording is a [Locker] that keeps the results of functions.
type Recording interface {
	// Once returns the result that is kept for key, and runs fn if there is
	// none. fresh reports that fn ran. atMostOnce asks that fn never runs twice.
	Once(ctx context.Context, key string, wait, ttl time.Duration, atMostOnce bool,
		fn func(context.Context) ([]byte, error)) (result []byte, fresh bool, err error)
}

// Lease is a held lock. Its methods are safe for concurrent use, except a
// second Release.
type Lease interface {
	// Lost returns a channel that is closed when the holder is told that the
	// lock was lost. Release may close it too.
	Lost() <-chan struct{}

	// Held reports whether the library considers the lock held now. A library
	// with its own clock for that may notice a loss before Lost is closed.
	Held() bool

	// Deadline returns the time until which the library trusts the lock if it
	// is not renewed. It is zero if the library does not tell.
	Deadline() time.Time

	// Token returns the fencing token, or ErrNoToken.
	Token(ctx context.Context) (uint64, error)

	// Release releases the lock. It returns nil if the library says that the
	// lock was held to the end.
	Release(ctx context.Context) error
}

// Reentrant is a Lease of a library whose holders may take their keys again.
type Reentrant interface {
	// Again takes the key of the lease in a call inside it and ends that call.
	// It returns the token of the call. The lease is still held.
	Again(ctx context.Context) (token uint64, err error)
}

// ErrNoToken means that a library has no fencing tokens.
var ErrNoToken = errors.New("contest: this library has no fencing tokens")

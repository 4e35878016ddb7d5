package contest

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// Guard is a guard as a [Locker].
type Guard struct {
	Guard *guard.Guard
	End   func() error // called when the guard is closed; nil for none
}

// Open makes a guard with fencing tokens over l. If it fails it calls end.
func Open(l locker.Locker, end func() error, opts ...guard.Option) (*Guard, error) {
	opts = append([]guard.Option{guard.WithFencing(), guard.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	g, err := guard.New(l, opts...)
	if err != nil && end != nil {
		err = errors.Join(err, end())
	}
	if err != nil {
		return nil, err
	}
	return &Guard{g, end}, nil
}

// Acquire bounds the wait itself, because the lease lives in the context that
// guard gets.
func (l *Guard) Acquire(ctx context.Context, key string, wait time.Duration) (Lease, error) {
	return acquire(ctx, l.Guard.With(guard.WithMaxWait(wait)), key)
}

func acquire(ctx context.Context, g *guard.Guard, key string) (Lease, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, cancel)
	held, err := g.Acquire(own, key)
	switch linked := unlink(); {
	case err != nil:
		cancel()
		return nil, err
	case !linked: // the caller left when the key came
		err := held.Release(own)
		cancel()
		return nil, errors.Join(ctx.Err(), err)
	}
	return &guardLease{held, g, key, cancel}, nil
}

// AcquireLimited is Acquire for a shared lease or a permit.
func (l *Guard) AcquireLimited(ctx context.Context, key string, wait time.Duration, limit int) (Lease, error) {
	mode := guard.WithShared()
	if limit != locker.NoLimit {
		mode = guard.WithPermits(limit)
	}
	lease, err := acquire(ctx, l.Guard.With(mode, guard.WithMaxWait(wait)), key)
	if err == nil && limit == locker.NoLimit {
		lease = sharedLease{lease.(*guardLease)}
	}
	return lease, err
}

// sharedLease has no tokens.
type sharedLease struct{ *guardLease }

func (sharedLease) Token(context.Context) (uint64, error) { return 0, ErrNoToken }

func (l sharedLease) Again(ctx context.Context) (token uint64, err error) {
	return 0, l.again(ctx, func(context.Context, *guard.Lease) error { return nil })
}

// AcquireAll bounds the wait itself, as Acquire does.
func (l *Guard) AcquireAll(ctx context.Context, keys []string, wait time.Duration, fn func([]Lease)) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	unlink := context.AfterFunc(ctx, cancel)
	return l.Guard.With(guard.WithMaxWait(wait)).DoAll(own, keys, func(own context.Context) error {
		if !unlink() {
			return ctx.Err()
		}
		var leases []Lease
		for _, key := range keys {
			held, _ := guard.LeaseOf(own, key)
			leases = append(leases, heldLease{&guardLease{held, l.Guard, key, cancel}})
		}
		fn(leases)
		return nil
	})
}

// heldLease is released by the call that has it.
type heldLease struct{ *guardLease }

func (heldLease) Release(context.Context) error { return nil }

// Once implements [Recording].
func (l *Guard) Once(ctx context.Context, key string, wait, ttl time.Duration, atMostOnce bool,
	fn func(context.Context) ([]byte, error),
) (result []byte, fresh bool, err error) {
	opts := []guard.Option{guard.WithMaxWait(wait)}
	if atMostOnce {
		opts = append(opts, guard.WithAtMostOnce())
	}
	r, err := l.Guard.With(opts...).OnceBytes(ctx, key, guard.OnceOptions{TTL: ttl}, fn)
	return r.Record, r.Fresh, err
}

// Close implements [Locker].
func (l *Guard) Close(ctx context.Context) error {
	err := l.Guard.Close(ctx)
	if l.End != nil {
		err = errors.Join(err, l.End())
	}
	return err
}

type guardLease struct {
	*guard.Lease

	guard  *guard.Guard
	key    string
	cancel context.CancelFunc
}

var (
	_ Moded     = (*Guard)(nil)
	_ Recording = (*Guard)(nil)
	_ Reentrant = (*guardLease)(nil)
)

// Again also ends with the lease's own context, in which guard finds the lease.
func (l *guardLease) Again(ctx context.Context) (token uint64, err error) {
	err = l.again(ctx, func(ctx context.Context, again *guard.Lease) (err error) {
		token, err = again.FencingToken(ctx)
		return err
	})
	return token, err
}

func (l *guardLease) again(ctx context.Context, use func(context.Context, *guard.Lease) error) error {
	inner, cancel := context.WithCancel(l.Context())
	defer cancel()
	unlink := context.AfterFunc(ctx, cancel)
	defer unlink()
	again, err := l.guard.Acquire(inner, l.key)
	if err != nil {
		return err
	}
	return errors.Join(use(inner, again), again.Release(inner))
}

func (l *guardLease) Lost() <-chan struct{} { return l.Context().Done() }
func (l *guardLease) Held() bool            { return l.Err() == nil }

func (l *guardLease) Token(ctx context.Context) (uint64, error) { return l.FencingToken(ctx) }

func (l *guardLease) Release(ctx context.Context) error {
	defer l.cancel()
	return l.Lease.Release(ctx)
}

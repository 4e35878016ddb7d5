package libs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
	"github.com/go-lockguard/guard/locker/redlock"
)

// Guard is this module's own library with its defaults and fencing tokens. On
// [Redlock] it uses package redlock.
var Guard = &Library{
	Name: "guard", Renews: true, Tells: true, Tokens: true,
	Topologies: Topologies,
	Keys:       func(key string) []string { return []string{"guard:{" + key + "}", "guard:{" + key + "}:crowd"} },
	open:       openGuard,
}

type guardLocker struct {
	guard *guard.Guard
	rdbs  []redis.UniversalClient
}

func openGuard(s Setup) (Locker, error) {
	rdbs := s.clients()
	store := newStore(s, rdbs)
	if s.Wrap != nil {
		store = s.Wrap(store)
	}
	opts := []guard.Option{guard.WithTTL(s.TTL), guard.WithFencing(), guard.WithLogger(slog.New(slog.DiscardHandler))}
	if s.NoRenewal {
		opts = append(opts, guard.WithoutRenewal())
	}
	g, err := guard.New(store, append(opts, s.Options...)...)
	if err != nil {
		return nil, errors.Join(err, closeAll(rdbs))
	}
	return &guardLocker{g, rdbs}, nil
}

func newStore(s Setup, rdbs []redis.UniversalClient) guard.Locker {
	var opts []redislocker.Option
	if s.Replicas > 0 {
		opts = append(opts, redislocker.WithReplicas(s.Replicas, 100*time.Millisecond))
	}
	switch s.Topology {
	case Sentinel:
		return redislocker.New(rdbs[0], append(opts, redislocker.WithSentinel(s.failover()))...)
	case Redlock:
		if s.RestartDelay > 0 {
			return redlock.New(rdbs, redlock.WithRestartDelay(s.RestartDelay))
		}
		return redlock.New(rdbs)
	}
	return redislocker.New(rdbs[0], opts...)
}

// Acquire bounds the wait itself, because the lease lives in the context that
// guard gets.
func (l *guardLocker) Acquire(ctx context.Context, key string, wait time.Duration) (Lease, error) {
	return acquire(ctx, l.guard.With(guard.WithMaxWait(wait)), key)
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
func (l *guardLocker) AcquireLimited(ctx context.Context, key string, wait time.Duration, limit int) (Lease, error) {
	mode := guard.WithShared()
	if limit != locker.NoLimit {
		mode = guard.WithPermits(limit)
	}
	lease, err := acquire(ctx, l.guard.With(mode, guard.WithMaxWait(wait)), key)
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
func (l *guardLocker) AcquireAll(ctx context.Context, keys []string, wait time.Duration, fn func([]Lease)) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	unlink := context.AfterFunc(ctx, cancel)
	return l.guard.With(guard.WithMaxWait(wait)).DoAll(own, keys, func(own context.Context) error {
		if !unlink() {
			return ctx.Err()
		}
		var leases []Lease
		for _, key := range keys {
			held, _ := guard.LeaseOf(own, key)
			leases = append(leases, heldLease{&guardLease{held, l.guard, key, cancel}})
		}
		fn(leases)
		return nil
	})
}

// heldLease is released by the call that has it.
type heldLease struct{ *guardLease }

func (heldLease) Release(context.Context) error { return nil }

// Once implements [Recording].
func (l *guardLocker) Once(ctx context.Context, key string, wait, ttl time.Duration, atMostOnce bool,
	fn func(context.Context) ([]byte, error),
) (result []byte, fresh bool, err error) {
	opts := []guard.Option{guard.WithMaxWait(wait)}
	if atMostOnce {
		opts = append(opts, guard.WithAtMostOnce())
	}
	r, err := l.guard.With(opts...).OnceBytes(ctx, key, guard.OnceOptions{TTL: ttl}, fn)
	return r.Record, r.Fresh, err
}

func (l *guardLocker) Close(ctx context.Context) error {
	return errors.Join(l.guard.Close(ctx), closeAll(l.rdbs))
}

func closeAll(rdbs []redis.UniversalClient) (err error) {
	for _, rdb := range rdbs {
		err = errors.Join(err, rdb.Close())
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
	_ Moded     = (*guardLocker)(nil)
	_ Recording = (*guardLocker)(nil)
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

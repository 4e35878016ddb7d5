// Package memlocker keeps leases in the memory of one process: for tests, for development, and for a service that will
// only ever run as one process.
//
// It excludes nobody in another process. Two instances of a service that each use it both run at once, and a restart
// forgets every lease: for those, use package redislocker. Apart from that it keeps the same promises as a locker on
// Redis, from expiry to fencing tokens, and passes the same suite, package lockertest.
//
//	g, err := guard.New(memlocker.New())
//
// Time is [time.Now], so that leases follow the virtual clock of a testing/synctest bubble. There are no goroutines and
// no timers: what has expired is forgotten by the next call.
package memlocker

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-lockguard/guard"
)

// Locker is a [guard.Locker] in memory. It is safe for concurrent use and serves one Guard family; [Locker.Peer] makes
// another on the same leases. None of its methods blocks.
type Locker struct {
	store *store
	id    string

	// Guarded by store.mu.
	state state
	waker guard.Waker // set by Open
}

var _ guard.Locker = (*Locker)(nil)

type state int

const (
	fresh state = iota
	open
	closed
)

// New returns a Locker on a store of its own.
func New() *Locker { return on(&store{keys: make(map[string]*entry)}) }

// Peer returns another Locker on the store of l, as a second process would have on the same Redis: with an instance id
// of its own, to be opened and closed by itself.
func (l *Locker) Peer() *Locker { return on(l.store) }

func on(s *store) *Locker { return &Locker{store: s, id: rand.Text()[:guard.OwnerLen]} }

// Open keeps w to wake local contenders. A second Open is an ErrInvalidOption.
func (l *Locker) Open(w guard.Waker) error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.state != fresh {
		return fmt.Errorf("memlocker: %w: opened twice, a locker serves one guard", guard.ErrInvalidOption)
	}
	l.state, l.waker = open, w
	return nil
}

// Acquire makes c.Owner the owner of c.Key for c.TTL, unless another owner holds it: then it returns a
// [*guard.HeldError] and, if c waits, notes this instance for a wake-up.
func (l *Locker) Acquire(ctx context.Context, c *guard.Claim) (token uint64, err error) {
	token, holder, err := l.acquire(ctx, c)
	if holder != nil {
		holder.waker.Wanted(c.Key)
	}
	return token, err
}

// acquire returns the instance that holds the key, if it is to know that this one has begun to wait.
func (l *Locker) acquire(ctx context.Context, c *guard.Claim) (token uint64, holder *Locker, err error) {
	now, err := l.enter(ctx)
	defer l.store.mu.Unlock()
	if err != nil {
		return 0, nil, err
	}
	e := l.store.at(c.Key)
	held := e.held(now) && e.owner != c.Owner
	if held || c.Yield {
		if c.Waits && l.queue(e, c, now) && held && e.by != l {
			holder = e.by
		}
		return 0, holder, &guard.HeldError{Key: c.Key, Remaining: max(0, e.expires.Sub(now)), Holder: e.holder}
	}
	c.Holder.Instance = l.id
	e.owner, e.by, e.expires, e.holder = c.Owner, l, now.Add(c.TTL), c.Holder
	e.leave(l)
	if c.Fencing {
		token = l.store.fence(now)
	}
	return token, nil, nil
}

// Renew gives each claim its full TTL again, or ErrLeaseLost.
func (l *Locker) Renew(ctx context.Context, cs []*guard.Claim) []error {
	errs := make([]error, len(cs))
	now, err := l.enter(ctx)
	defer l.store.mu.Unlock()
	for i, c := range cs {
		switch e := l.store.owned(c, now); {
		case err != nil:
			errs[i] = err
		case e == nil:
			errs[i] = guard.ErrLeaseLost
		default:
			e.expires = now.Add(c.TTL)
		}
	}
	return errs
}

// Fence reserves a block of fencing tokens for c, if it owns its key, and returns the first.
func (l *Locker) Fence(ctx context.Context, c *guard.Claim) (token uint64, err error) {
	now, err := l.enter(ctx)
	defer l.store.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if l.store.owned(c, now) == nil {
		return 0, guard.ErrLeaseLost
	}
	return l.store.fence(now), nil
}

// Release frees the key if c owns it, wakes the instance that has waited longest, and queues this one behind the others
// if c waits.
func (l *Locker) Release(ctx context.Context, c *guard.Claim) (guard.Freed, error) {
	if err := l.free(ctx, c, c.Waits); err != nil {
		return guard.Freed{}, err
	}
	return l.wake(c.Key), nil
}

func (l *Locker) free(ctx context.Context, c *guard.Claim, waits bool) error {
	now, err := l.enter(ctx)
	defer l.store.mu.Unlock()
	if err != nil {
		return err
	}
	e := l.store.owned(c, now)
	if e == nil {
		return guard.ErrLeaseLost
	}
	e.owner, e.by = "", nil
	e.leave(l)
	c.Queued = false
	if waits && len(e.queue) > 0 {
		c.State = nil // behind the others
		l.queue(e, c, now)
	}
	return nil
}

// PassOn wakes the instance that has waited longest for key, if it is free.
func (l *Locker) PassOn(key string) { l.wake(key) }

// Abandon frees the key if c owns it, now and once more after a second, as a locker must whose requests can be late.
func (l *Locker) Abandon(c *guard.Claim) {
	l.store.again(c)
	if l.free(context.Background(), c, false) == nil { //nolint:forbidigo // in memory: cannot block //nolint:forbidigo // whatever has become of the ctx of its caller
		l.wake(c.Key)
	}
}

// Check returns nil while l is open.
func (l *Locker) Check(ctx context.Context, _ time.Duration) error {
	_, err := l.enter(ctx)
	defer l.store.mu.Unlock()
	return err
}

// Close ends the use of l, not that of its peers. Keys that it holds end at their TTL. Idempotent.
func (l *Locker) Close(context.Context) error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.state = closed
	for _, e := range l.store.keys {
		e.leave(l)
	}
	return nil
}

// enter locks the store, also if it returns an error, and says what time it is there.
func (l *Locker) enter(ctx context.Context) (now time.Time, err error) {
	l.store.mu.Lock()
	now = time.Now()
	switch {
	case l.state != open:
		return now, fmt.Errorf("memlocker: %w", guard.ErrClosed)
	case ctx.Err() != nil:
		return now, fmt.Errorf("memlocker: %w: %w", guard.ErrUnavailable, ctx.Err())
	case l.store.broken > 0:
		return now, fmt.Errorf("memlocker: %w: broken for a test", guard.ErrUnavailable)
	}
	l.store.tidy(now)
	return now, nil
}

package redislocker

import (
	"context"
	"errors"

	"github.com/bsm/redislock"

	"github.com/go-lockguard/guard"
)

// Renew renews all leases in one round trip (one per node of a cluster, at the same time).
func (l *Locker) Renew(ctx context.Context, cs []*guard.Claim) []error {
	errs := make([]error, len(cs))
	if err := l.enter(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	defer l.calls.Done()
	calls := make([]call, len(cs))
	for i, c := range cs {
		calls[i] = renewCall(c, l.keys(c.Key))
	}
	for i, answer := range l.run(ctx, calls...) {
		if n, err := answer.Int(); err != nil {
			errs[i] = leaseError(err)
		} else if n != 1 {
			errs[i] = errNotOwner
		}
	}
	return errs
}

func renewCall(c *guard.Claim, k keys) call {
	return newCall(renewScript, 1, k.lock, c.Owner, c.TTL.Milliseconds())
}

// Release frees the key and wakes who waits for it: in one round trip, or in two if it turns out only then that somebody
// does. Looking costs the server less than the script that wakes.
func (l *Locker) Release(ctx context.Context, c *guard.Claim) (guard.Freed, error) {
	if err := l.enter(); err != nil {
		return guard.Freed{}, err
	}
	defer l.calls.Done()
	return l.release(ctx, c, l.state(c).keys)
}

func (l *Locker) release(ctx context.Context, c *guard.Claim, k keys) (guard.Freed, error) {
	st := l.state(c)
	if c.Waits {
		l.inbox.open()
	}
	c.Queued = c.Waits && l.inbox.live.Load()
	if st.lock == nil { // no try was answered, so redislock knows of no lock
		answers := l.run(ctx, cleanCall(k, c.Owner), l.wakeCall(c.Key, k, l.id, c.Queued))
		if n, err := answers[0].Int(); err != nil {
			return guard.Freed{}, leaseError(err)
		} else if n != 1 {
			return guard.Freed{}, errNotOwner
		}
		return freed(answers[1]), nil
	}
	behind := call{line: []any{zcard, k.wait()}}
	if c.Wanted {
		behind = l.wakeCall(c.Key, k, l.id, c.Queued)
	}
	st.travel.behind = &behind
	switch err := st.lock.Release(ctx); {
	case errors.Is(err, redislock.ErrLockNotHeld):
		return guard.Freed{}, errNotOwner
	case err != nil:
		return guard.Freed{}, leaseError(err)
	}
	if c.Wanted {
		return freed(st.travel.answer), nil
	}
	if n, err := st.travel.answer.Int(); err == nil && n == 0 {
		return guard.Freed{}, nil
	}
	return freed(l.run(ctx, l.wakeCall(c.Key, k, l.id, c.Queued))[0]), nil
}

// wakeCall wakes the first in the queue for a key that is free. self leaves the queue first, or goes to its end if
// requeue. Only a release may name itself: whatever is sent later, in the background, could remove what a new caller of
// this instance has queued meanwhile.
func (l *Locker) wakeCall(key string, k keys, self any, requeue bool) call {
	return newCall(wakeScript, 2, k.lock, k.wait(),
		self, flag(requeue), life, l.inboxes, freeWord+key, flag(l.cluster == nil))
}

// freed reads the answer of wake.lua. The key is free whatever it says; if it says nothing, somebody may wait.
func freed(answer command) guard.Freed {
	n, err := answer.Int64Slice()
	if err != nil || len(n) != 2 {
		return guard.Freed{Waiting: 1}
	}
	return guard.Freed{Waiting: int(n[0]), Woken: n[1] == 1}
}

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
	return call{renewScript, []string{k.lock}, []any{c.Owner, c.TTL.Milliseconds()}}
}

// Release frees the key and counts who waits for it, in one round trip.
func (l *Locker) Release(ctx context.Context, c *guard.Claim) (guard.Freed, error) {
	if err := l.enter(); err != nil {
		return guard.Freed{}, err
	}
	defer l.calls.Done()
	waiting, err := l.release(ctx, c, l.keys(c.Key))
	return guard.Freed{Waiting: waiting}, err
}

// PassOn has nothing to do: nobody is woken yet.
func (l *Locker) PassOn(string) {}

func (l *Locker) release(ctx context.Context, c *guard.Claim, k keys) (waiting int, err error) {
	st := l.state(c)
	st.travel.behind = &call{
		waitingScript,
		[]string{k.lock, k.wait()},
		[]any{l.instance, queueLife.Milliseconds()},
	}
	if st.lock == nil { // no try was answered, so redislock knows of no lock
		answers := l.run(ctx, cleanCall(k.lock, c.Owner), *st.travel.behind)
		if n, err := answers[0].Int(); err != nil {
			return 0, leaseError(err)
		} else if n != 1 {
			return 0, errNotOwner
		}
		return others(answers[1]), nil
	}
	switch err := st.lock.Release(ctx); {
	case errors.Is(err, redislock.ErrLockNotHeld):
		return 0, errNotOwner
	case err != nil:
		return 0, leaseError(err)
	}
	return others(st.travel.answer), nil
}

// others reads the answer of waiting.lua. The key is free whatever it says; if it says nothing, somebody may wait.
func others(answer command) int {
	n, err := answer.Int()
	if err != nil {
		return 1
	}
	return n
}

package redislocker

import (
	"context"

	"github.com/go-lockguard/guard/locker"
)

// Renew renews all leases in one round trip, or in one per node of a cluster at the same time: what one node answers
// does not wait for another.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.calls.Done()
	l.perNode(cs, func(node string, at []int) {
		calls := make([]call, len(at))
		for n, i := range at {
			calls[n] = renewCall(cs[i], l.keys(cs[i].Key))
		}
		calls[0] = calls[0].spelled() // which teaches it to the others: a renewal has no time for a second round trip
		for n, answer := range run(ctx, l.way(node), calls...) {
			l.fresh.note(node, answer.Err())
			answered(at[n], renewed(answer))
		}
	})
}

func renewCall(c *locker.Claim, k keys) call {
	return newCall(renewScript, 1, k.lock, c.Owner, c.TTL.Milliseconds())
}

func renewed(answer command) error {
	if n, err := answer.Int(); err != nil {
		return leaseError(err)
	} else if n != 1 {
		return errNotOwner
	}
	return nil
}

// Release frees the key, or hands it to the first who waits for it, in one round trip.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if err := l.enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.calls.Done()
	return l.release(ctx, c, next)
}

func (l *Locker) release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	var behind any = ""
	if next != nil {
		l.inbox.open()
		behind = l.queued(next)
	}
	st := l.state(c)
	l.recent.note(c.Key, c.Owner, c.TTL)
	answer := l.run(ctx, l.releaseCall(c.Key, st.keys, st.owner, "", behind))[0]
	if answer.Err() != nil {
		return locker.Released{}, leaseError(answer.Err())
	}
	r, owned, err := released(answer.Val())
	if err == nil && !owned {
		err = errNotOwner
	}
	return r, err
}

// released reads the answer of release.lua.
func released(answer any) (r locker.Released, owned bool, err error) {
	if n, ok := answer.(int64); ok {
		return r, n == 1, nil
	}
	parts, ok := answer.([]any)
	if !ok || len(parts) != 4 {
		return r, false, unclear(errNoAnswer)
	}
	n, _ := parts[0].(int64)
	waiting, _ := parts[1].(int64)
	handed, _ := parts[2].(int64)
	r = locker.Released{Waiting: int(waiting), Handed: handed == 1}
	r.Place, r.Queued = place(parts[3])
	return r, n == 1, nil
}

// releaseCall frees the key by owner id alone, or hands it on. own is the owner's entry, which leaves the queue; next is
// queued behind all others.
func (l *Locker) releaseCall(key string, k keys, owner, own, next any) call {
	return newCall(releaseScript, 3, k.lock, k.wait, k.fence,
		owner, own, next, life, l.inboxes, flag(l.cluster == nil), block, counterLife, key)
}

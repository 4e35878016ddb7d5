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
	l.perNode(cs, func(at []int) {
		calls := make([]call, len(at))
		for n, i := range at {
			calls[n] = renewCall(cs[i], l.keys(cs[i].Key))
		}
		for n, answer := range l.run(ctx, calls...) {
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
	parts, err := l.run(ctx, l.releaseCall(l.state(c).keys, c.Key, c.Owner, "", behind))[0].Slice()
	switch {
	case err != nil:
		return locker.Released{}, leaseError(err)
	case len(parts) != 4:
		return locker.Released{}, unclear(errNoAnswer)
	}
	owned, _ := parts[0].(int64)
	waiting, _ := parts[1].(int64)
	handed, _ := parts[2].(int64)
	r := locker.Released{Waiting: int(waiting), Handed: handed == 1}
	r.Place, r.Queued = place(parts[3])
	if owned != 1 {
		return r, errNotOwner
	}
	return r, nil
}

// releaseCall frees the key by owner id alone, or hands it on. own is the owner's entry, which leaves the queue; next is
// queued behind all others.
func (l *Locker) releaseCall(k keys, key string, owner, own, next any) call {
	return newCall(releaseScript, 3, k.lock, k.wait(), k.fence(),
		owner, own, next, life, l.inboxes, key, flag(l.cluster == nil), block, (fenceLife).Milliseconds())
}

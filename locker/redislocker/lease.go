package redislocker

import (
	"context"

	"github.com/go-lockguard/guard/locker"
)

// Release frees the key, or hands it to the first waiter, in one round trip.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.gate.Leave()
	return l.release(ctx, c, next)
}

func (l *Locker) release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	return freed(l.runOne(ctx, nil, l.releasing(c, next)))
}

// releasing is the request of a release.
func (l *Locker) releasing(c, next *locker.Claim) call {
	behind := ""
	if next != nil {
		l.inbox.open()
		behind = l.queued(next)
	}
	st := l.state(c)
	own := ""
	if c.Limit > 1 {
		own = st.entry // its share is found sooner
	}
	l.recent.note(c.Key, c.Owner, c.TTL)
	return l.endCall(c, own, behind)
}

// freed reads the answer to a release.
func freed(answer command) (locker.Released, error) {
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
	if !ok || len(parts) != 4 && len(parts) != 5 {
		return r, false, unclear(errNoAnswer)
	}
	if len(parts) == 5 {
		version, _ := parts[4].(string)
		return r, false, unclear(newerError{version})
	}
	n, _ := parts[0].(int64)
	waiting, _ := parts[1].(int64)
	handed, _ := parts[2].(int64)
	r = locker.Released{Waiting: int(waiting), Handed: handed == 1}
	r.Place, r.Queued = place(parts[3])
	return r, n == 1, nil
}

// endCall is releaseCall for a claim, which may have a mark to remove.
func (l *Locker) endCall(c *locker.Claim, own, next string) call {
	st := l.state(c)
	if !st.unmark {
		return l.releaseCall(c.Key, st.keys, st.owner, own, next)
	}
	k := st.keys
	return newCall(unmarkScript, 6, k.lock, k.wait, k.due, k.fence, k.crowd, l.recordName(c.Key),
		st.owner, own, next, l.inboxes, flag(!l.conn.Cluster()), c.Key)
}

// releaseCall frees the key by owner id alone, or hands it on. own is the
// owner's entry, which leaves the queue and the crowd. next is queued behind
// all others. Both may be "".
func (l *Locker) releaseCall(key string, k keys, owner any, own, next string) call {
	line := make([]any, 0, 12)
	line = append(line, evalSHA, l.freeing.sha, 5, k.lock, k.wait, k.due, k.fence, k.crowd, owner, key)
	switch {
	case next != "":
		line = append(line, own, next)
	case own != "":
		line = append(line, own)
	}
	return call{l.freeing, line}
}

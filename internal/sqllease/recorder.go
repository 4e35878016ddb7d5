package sqllease

import (
	"context"
	"errors"

	"github.com/go-lockguard/guard/locker"
)

var _ locker.Marker = (*Locker)(nil)

// claimState is the locker's own part of a claim that recalls. The guard never
// has two calls in flight that use it.
type claimState struct {
	keep   *locker.Record // of a Keep without an answer
	unmark bool           // see Unmark
}

// claimStateOf returns the state of c. Changes to it last only if c recalls.
func claimStateOf(c *locker.Claim) *claimState {
	s, ok := c.State.(*claimState)
	if !ok {
		s = new(claimState)
		if c.Recall {
			c.State = s
		}
	}
	return s
}

// Keep is Release of c with a record.
func (l *Locker) Keep(ctx context.Context, c, next *locker.Claim, r locker.Record) (locker.Released, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.gate.Leave()
	released, err := l.release(ctx, keeping(c, r), next)
	if errors.Is(err, locker.ErrUnavailable) {
		claimStateOf(c).keep = &r // for Abandon
	}
	return released, err
}

func keeping(c *locker.Claim, r locker.Record) request {
	return request{verb: keep, key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value)}
}

// ending returns the request that leaves nothing of c behind (law 19).
func ending(c *locker.Claim) request {
	s := claimStateOf(c)
	if s.keep != nil {
		return keeping(c, *s.keep)
	}
	return request{verb: release, key: c.Key, owner: c.Owner, unmark: s.unmark}
}

// Begin marks the key of c.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (record string, err error) {
	if err := l.gate.Enter(); err != nil {
		return "", err
	}
	defer l.gate.Leave()
	answer := l.lanes.do(ctx, request{
		verb: begin, key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value),
	})
	switch {
	case answer.err != nil:
		return "", l.unclear(answer)
	case !answer.ok:
		return "", l.lost()
	}
	return string(answer.record), nil
}

// Unmark lets the Release or Abandon of c remove its mark. It sends nothing.
func (*Locker) Unmark(c *locker.Claim) { claimStateOf(c).unmark = true }

// Forget deletes the record of key, and reports whether there was one. The first
// of two requests finds out which record is meant, so that a Forget that arrives
// late deletes no later one.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.gate.Enter(); err != nil {
		return false, err
	}
	defer l.gate.Leave()
	r := l.lanes.do(ctx, request{verb: forget, key: key})
	if r.err == nil && r.ok {
		r = l.lanes.do(ctx, request{verb: forget, key: key, owner: string(r.record)})
	}
	if r.err != nil {
		return false, l.unclear(r)
	}
	return r.ok, nil
}

// joins tells the guard of claims that waited here and will find a record now.
func (l *Locker) joins(rows map[string]*row) {
	recorded := false
	for _, r := range rows {
		recorded = recorded || r.counting() != nil
	}
	j, ok := l.waker.(locker.Joiner)
	if !recorded || !ok {
		return
	}
	var found []*locker.Claim
	l.mu.Lock()
	for owner, w := range l.queued {
		r := rows[w.claim.Key]
		if w.claim.Recall && r != nil && r.counting() != nil && !r.owned(owner) && !r.waits(owner) {
			found = append(found, w.claim)
			delete(l.queued, owner)
		}
	}
	l.mu.Unlock()
	for _, c := range found {
		j.Recorded(c.Key, c.Owner, "")
	}
}

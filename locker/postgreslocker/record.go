package postgreslocker

import (
	"context"
	"errors"

	"github.com/go-lockguard/guard/locker"
)

var _ locker.Marker = (*Locker)(nil)

// claimState is the locker's own part of a claim. The guard never has two calls
// in flight that use it.
type claimState struct {
	keep   *locker.Record // of a Keep without an answer
	unmark bool           // see Unmark
}

// stateOf returns the state of c, for changes.
func stateOf(c *locker.Claim) *claimState {
	s, ok := c.State.(*claimState)
	if !ok {
		s = new(claimState)
		c.State = s
	}
	return s
}

// endOf returns what Release and Abandon of c do.
func endOf(c *locker.Claim) ending {
	e := ending{key: c.Key, owner: c.Owner}
	if s, ok := c.State.(*claimState); ok {
		e.keep = s.keep
		if s.unmark {
			e.flags = flagUnmark
		}
	}
	return e
}

// Keep is Release of c with a record. It takes one request.
func (l *Locker) Keep(ctx context.Context, c, next *locker.Claim, r locker.Record) (locker.Released, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.gate.Leave()
	released, err := l.release(ctx, ending{key: c.Key, owner: c.Owner, keep: &r}, next)
	err = unclear(err)
	if errors.Is(err, locker.ErrUnavailable) {
		stateOf(c).keep = &r // for Abandon
	}
	return released, err
}

// Begin marks the key of c. It takes one request.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (record string, err error) {
	if err := l.gate.Enter(); err != nil {
		return "", err
	}
	defer l.gate.Leave()
	got, err := l.send(&call{
		ctx: ctx, op: "b", key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value), limit: 1,
	})
	switch {
	case err != nil:
		return "", unclear(err)
	case !got.kept:
		return "", errNotOwner
	}
	return string(got.record), nil
}

// Unmark lets the Release or Abandon of c remove its mark. It sends nothing.
func (*Locker) Unmark(c *locker.Claim) { stateOf(c).unmark = true }

// Forget deletes the record of key, and reports whether there was one. The first
// of two requests finds out which record is meant, so that a Forget that arrives
// late deletes no later one.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.gate.Enter(); err != nil {
		return false, err
	}
	defer l.gate.Leave()
	r, err := l.forgetOf(ctx, key, "")
	if err == nil && r.kept {
		r, err = l.forgetOf(ctx, key, string(r.record))
	}
	return r.kept, unclear(err)
}

// forgetOf deletes the record of key that owner has left. Without an owner it
// deletes nothing, and returns the owner of the record that counts.
func (l *Locker) forgetOf(ctx context.Context, key, owner string) (result, error) {
	return l.send(&call{ctx: ctx, op: "d", key: key, owner: owner, limit: 1})
}

// kept tells the guard that owner, a claim that waited, will find a record.
func (l *Locker) kept(key, owner string) {
	if j, ok := l.waker.(locker.Joiner); ok {
		j.Recorded(key, owner, "")
	}
}

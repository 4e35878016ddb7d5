package lockertest_test

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var markingFaults = []fault{
	{
		"marks nothing",
		[]string{
			"a mark is found when its claim has released the key", "a mark is found when its claim has died",
			"a claim in the queue finds a mark and leaves",
		},
		func(m memory) locker.Locker {
			return begins{m, func(c *locker.Claim, _ locker.Record) (string, error) {
				if !m.renewed(c) {
					return "", locker.ErrLeaseLost
				}
				return "", nil
			}}
		},
	},
	{
		"takes a mark for a record at once",
		[]string{"a mark is not found while its claim owns the key"},
		func(m memory) locker.Locker { return showsMarks{notesMarks{soundKeep(m)}} },
	},
	{
		"takes the mark of a claim for its record",
		[]string{"a mark is no record that its claim has kept"},
		func(m memory) locker.Locker {
			return notesMarks{keeps{m, func(c *locker.Claim, e locker.End) (locker.Released, error) {
				released, err := m.Locker.Release(context.Background(), c, e)
				if errors.Is(err, locker.ErrLeaseLost) && m.lastMark(c.Key).owner == c.Owner {
					err = nil
				}
				return released, err
			}}}
		},
	},
	{
		"keeps the mark when there is a record",
		[]string{"a record takes the place of a mark"},
		func(m memory) locker.Locker {
			return notesMarks{keeps{m, func(c *locker.Claim, e locker.End) (locker.Released, error) {
				if m.lastMark(c.Key).owner == c.Owner {
					return m.Locker.Release(context.Background(), c, locker.End{Next: e.Next})
				}
				return m.Locker.Release(context.Background(), c, e)
			}}}
		},
	},
	{
		"marks the keys of others",
		[]string{"only the owner of a key marks it"},
		func(m memory) locker.Locker {
			return begins{m, func(c *locker.Claim, r locker.Record) (string, error) {
				record, err := m.Locker.Begin(context.Background(), c, r)
				if errors.Is(err, locker.ErrLeaseLost) {
					err = nil
				}
				return record, err
			}}
		},
	},
	{
		"marks over the mark of another claim",
		[]string{"a mark does not replace that of another claim"},
		func(m memory) locker.Locker {
			return begins{m, func(c *locker.Claim, r locker.Record) (string, error) {
				_, err := m.Locker.Begin(context.Background(), c, r)
				return "", err
			}}
		},
	},
	{
		"leaves a claim that has found a mark in the queue",
		[]string{"a claim in the queue finds a mark and leaves"},
		func(m memory) locker.Locker { return staysQueued{m} },
	},
	{
		"never removes a mark",
		[]string{"a claim under which nothing was done leaves no mark"},
		func(m memory) locker.Locker { return neverUnmarks{m} },
	},
	{
		"forgets the mark of a claim that owns its key",
		[]string{"a mark is forgotten only when its claim has ended"},
		func(m memory) locker.Locker { return forgetsAll{notesMarks{soundKeep(m)}} },
	},
	{
		"keeps marks for ever",
		[]string{"a mark ends by its TTL"},
		func(m memory) locker.Locker {
			return begins{m, func(c *locker.Claim, r locker.Record) (string, error) {
				r.TTL *= 1000
				return m.Locker.Begin(context.Background(), c, r)
			}}
		},
	},
	{
		"writes back with a mark the lease that it read before",
		[]string{"a mark and a renewal at once are both kept"},
		func(m memory) locker.Locker { return undoesRenewals{m} },
	},
}

// begins is a locker with a Begin of its own.
type begins struct {
	memory
	begin func(c *locker.Claim, r locker.Record) (string, error)
}

func (l begins) Begin(_ context.Context, c *locker.Claim, r locker.Record) (string, error) {
	return l.begin(c, r)
}

func soundKeep(m memory) keeps {
	return keeps{m, func(c *locker.Claim, e locker.End) (locker.Released, error) {
		return m.Locker.Release(context.Background(), c, e)
	}}
}

// marked is a mark as notesMarks remembers it.
type marked struct{ owner, value string }

// notesMarks remembers the last mark of each key.
type notesMarks struct{ keeps }

func (l notesMarks) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (string, error) {
	l.all.marks.Store(c.Key, marked{c.Owner, r.Value})
	return l.Locker.Begin(ctx, c, r)
}

// lastMark returns the last mark of key, or none.
func (m memory) lastMark(key string) marked {
	stored, _ := m.all.marks.Load(key)
	last, _ := stored.(marked)
	return last
}

type showsMarks struct{ notesMarks }

func (l showsMarks) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if m := l.lastMark(c.Key); c.Recall && m.value != "" && m.owner != c.Owner {
		return locker.Answer{Record: m.value}, nil
	}
	return l.Locker.Acquire(ctx, c, t)
}

type forgetsAll struct{ notesMarks }

func (l forgetsAll) Forget(ctx context.Context, key string) (bool, error) {
	found, err := l.Locker.Forget(ctx, key)
	return found || l.lastMark(key).value != "", err
}

// staysQueued puts a claim that has found a record back into the queue.
type staysQueued struct{ memory }

func (l staysQueued) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if a.Record != "" && t.Queued {
		d := *c
		d.Recall = false
		_, err = l.memory.Acquire(ctx, &d, locker.Try{Wait: true})
	}
	return a, err
}

type neverUnmarks struct{ memory }

func (l neverUnmarks) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	e.Unmark = false
	return l.memory.Release(ctx, c, e)
}

// undoesRenewals takes time between what it reads and what it writes.
type undoesRenewals struct{ memory }

func (l undoesRenewals) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (string, error) {
	end := time.Now().Add(l.find(c.Key).Remaining)
	time.Sleep(2 * time.Millisecond)
	record, err := l.memory.Begin(ctx, c, r)
	if err == nil {
		old := *c
		old.TTL = time.Until(end)
		l.renewed(&old)
	}
	return record, err
}

func (l undoesRenewals) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	time.Sleep(time.Millisecond)
	l.memory.Renew(ctx, cs, answered)
}

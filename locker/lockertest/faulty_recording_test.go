package lockertest_test

import (
	"context"
	"strings"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var recordingFaults = []fault{
	{
		"never looks for a record",
		[]string{
			"a record is found in place of the key", "a release with a record may be repeated",
			"a record is any bytes, and up to MaxRecord of them",
		},
		func(m memory) locker.Locker {
			return changesClaim{m, func(c *locker.Claim) { c.Recall = false }}
		},
	},
	{
		"keeps a record for anybody",
		[]string{"only the owner of a key keeps a record", "a lease that has ended keeps no record"},
		func(m memory) locker.Locker {
			return keeps{m, func(c *locker.Claim, e locker.End) (locker.Released, error) {
				released, err := m.Locker.Release(context.Background(), c, e)
				if err != nil {
					m.Lose(c.Key)
					_, _ = m.Acquire(context.Background(), c, locker.Try{})
					released, err = m.Locker.Release(context.Background(), c, e)
				}
				return released, err
			}}
		},
	},
	{
		"answers a second release with a record with a loss",
		[]string{"a release with a record may be repeated"},
		func(m memory) locker.Locker {
			return keeps{m, func(c *locker.Claim, e locker.End) (locker.Released, error) {
				if !m.renewed(c) {
					return locker.Released{}, locker.ErrLeaseLost
				}
				return m.Locker.Release(context.Background(), c, e)
			}}
		},
	},
	{
		"hands the key to claims that recall, beside the record",
		[]string{
			"claims that recall leave the queue when there is a record",
			"other claims are served when there is a record",
		},
		func(m memory) locker.Locker { return leavesQueued{m} },
	},
	{
		"tells nobody of a record",
		[]string{"claims that recall leave the queue when there is a record"},
		func(m memory) locker.Locker {
			return tells{m, func(w locker.Waker) locker.Waker { return unkept{w} }}
		},
	},
	{
		"takes all claims out of the queue when there is a record",
		[]string{"other claims are served when there is a record"},
		func(m memory) locker.Locker {
			return keeps{m, func(c *locker.Claim, e locker.End) (locker.Released, error) {
				released, err := m.Locker.Release(context.Background(), c, locker.End{Record: e.Record})
				if err == nil {
					m.Lose(c.Key)
				}
				return released, err
			}}
		},
	},
	{
		"queues no claim that recalls",
		[]string{"a release without a record hands the key to a claim that recalls"},
		func(m memory) locker.Locker { return queuesNoRecall{m} },
	},
	{
		"has no tokens for claims that recall",
		[]string{"a claim that recalls may want tokens"},
		func(m memory) locker.Locker {
			return changesClaim{m, func(c *locker.Claim) { c.Fencing = c.Fencing && !c.Recall }}
		},
	},
	{
		"shares a key with a claim that recalls",
		[]string{"a claim that recalls owns its key alone"},
		func(m memory) locker.Locker {
			return changesClaim{m, func(c *locker.Claim) {
				if c.Recall {
					c.Limit = locker.NoLimit
				}
			}}
		},
	},
	{
		"keeps records for ever",
		[]string{"a record ends by its TTL"},
		func(m memory) locker.Locker {
			return changesRecord(m, func(r *locker.Record) { r.TTL *= 1000 })
		},
	},
	{
		"keeps no record for years",
		[]string{"a record ends by its TTL"},
		func(m memory) locker.Locker {
			return changesRecord(m, func(r *locker.Record) { r.TTL %= 365 * 24 * time.Hour })
		},
	},
	{
		"cuts long records",
		[]string{"a record is any bytes, and up to MaxRecord of them"},
		func(m memory) locker.Locker {
			return changesRecord(m, func(r *locker.Record) { r.Value = r.Value[:min(len(r.Value), 4<<10)] })
		},
	},
	{
		"keeps text only",
		[]string{"a record is any bytes, and up to MaxRecord of them"},
		func(m memory) locker.Locker {
			return changesRecord(m, func(r *locker.Record) { r.Value = strings.ToValidUTF8(r.Value, "?") })
		},
	},
	{
		"forgets no record",
		[]string{"a record that was forgotten is not found"},
		func(m memory) locker.Locker { return forgetsNothing{m} },
	},
}

// keeps is a locker that keeps records in a way of its own.
type keeps struct {
	memory
	keep func(c *locker.Claim, e locker.End) (locker.Released, error)
}

func (l keeps) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Record.Value == "" {
		return l.memory.Release(ctx, c, e)
	}
	return l.keep(c, e)
}

func changesRecord(m memory, change func(r *locker.Record)) locker.Locker {
	return keeps{m, func(c *locker.Claim, e locker.End) (locker.Released, error) {
		change(&e.Record)
		return m.Locker.Release(context.Background(), c, e)
	}}
}

// leavesQueued queues claims that recall as if they did not.
type leavesQueued struct{ memory }

func (l leavesQueued) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if !c.Recall || !a.Queued {
		return a, err
	}
	d := *c
	d.Recall = false
	return l.memory.Acquire(ctx, &d, t)
}

// unkept hears of no record.
type unkept struct{ locker.Waker }

func (unkept) Recorded(string, string, string) {}

type queuesNoRecall struct{ memory }

func (l queuesNoRecall) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	t.Wait = t.Wait && !c.Recall
	return l.memory.Acquire(ctx, c, t)
}

type forgetsNothing struct{ memory }

func (forgetsNothing) Forget(context.Context, string) (bool, error) { return true, nil }

// freesFirst forgets, when it gives up a claim, that there is a record to keep.
type freesFirst struct{ memory }

func (l freesFirst) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Queued {
		e.Record = locker.Record{}
	}
	return l.memory.Release(ctx, c, e)
}

package lockerkit

import (
	"context"
	"sync/atomic"
	"time"
)

// Calls brings the calls of many goroutines to workers, which take many at a
// time. Calls that are posted together reach one worker together. The capacity
// is the number of posts that wait for a worker before their callers block.
type Calls[Q, R any] chan []*Call[Q, R]

// Call is a request on its way.
//
// Invariant: either its caller or a worker takes it, and never both. The caller
// takes it to give up, and the workers then skip it.
type Call[Q, R any] struct {
	Ctx     context.Context // of the caller
	Request Q

	taken  atomic.Bool
	answer chan R // has room for the one answer, so that no worker waits for a caller
}

// Do blocks until a worker has answered q or ctx ends. In the second case err
// is ctx's, and unsent says that no worker has taken the call or will.
func (cs Calls[Q, R]) Do(ctx context.Context, q Q) (r R, unsent bool, err error) {
	posted, err := cs.Post(ctx, q)
	if err != nil {
		return r, true, err
	}
	return posted[0].Wait()
}

// Post leaves qs to the workers. It blocks until there is room, or returns the
// error of ctx.
func (cs Calls[Q, R]) Post(ctx context.Context, qs ...Q) (posted []*Call[Q, R], err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, q := range qs {
		posted = append(posted, &Call[Q, R]{Ctx: ctx, Request: q, answer: make(chan R, 1)})
	}
	select {
	case cs <- posted:
		return posted, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Wait is the second half of Do.
func (c *Call[Q, R]) Wait() (r R, unsent bool, err error) {
	select {
	case r = <-c.answer:
		return r, false, nil
	case <-c.Ctx.Done():
	}
	select {
	case r = <-c.answer: // both at once
		return r, false, nil
	default:
		return r, c.Take(), c.Ctx.Err()
	}
}

// Take reports whether the call is the worker's, which answers it then.
func (c *Call[Q, R]) Take() bool { return c.taken.CompareAndSwap(false, true) }

// Answer answers a call that was taken, once.
func (c *Call[Q, R]) Answer(r R) { c.answer <- r }

// Gather takes the calls of first and those that have come behind it. It takes
// no more than most, and no more when their sizes exceed room. The rest are
// calls that have come but were not taken: they are the next to gather.
func (cs Calls[Q, R]) Gather(
	first []*Call[Q, R], most, room int, size func(q *Q) int,
) (batch, rest []*Call[Q, R]) {
	rest = first
	for {
		for len(rest) > 0 && len(batch) < most && room >= 0 {
			if c := rest[0]; c.Take() {
				batch = append(batch, c)
				room -= size(&c.Request)
			}
			rest = rest[1:]
		}
		if len(batch) == most || room < 0 {
			return batch, rest
		}
		select {
		case rest = <-cs:
		default:
			return batch, nil
		}
	}
}

// Patience returns until when a caller of the batch waits, at least for the
// default if one has no deadline.
func Patience[Q, R any](batch []*Call[Q, R], def time.Duration) (until time.Time) {
	for _, c := range batch {
		end, ok := c.Ctx.Deadline()
		if !ok {
			end = time.Now().Add(def)
		}
		if end.After(until) {
			until = end
		}
	}
	return until
}

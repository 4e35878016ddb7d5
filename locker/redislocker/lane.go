package redislocker

import (
	"container/heap"
	"time"
)

// A lane holds the chores of one node. fresh has those that were never tried,
// in the order of their arrival. again has those to be tried again, by the time
// when they are due. The fresh chores go first, because they may wake somebody.
// Each part is bounded.
type lane struct {
	wake  chan struct{} // holds one: there are new chores
	fresh []chore
	again repeats

	dropped int       // since they were last told
	toldAt  time.Time // when they were; zero: never
}

// add keeps c, unless there are too many already. It counts those that it drops.
func (ln *lane) add(c chore) {
	switch {
	case c.tries == 0 && len(ln.fresh) < cleanMost:
		ln.fresh = append(ln.fresh, c)
	case c.tries > 0 && len(ln.again) < cleanMost:
		heap.Push(&ln.again, c)
	default:
		ln.dropped++
	}
}

// tell returns how many chores were dropped and not told yet. While more are
// dropped, it does so once in tellEvery. At the end of the lane it tells all.
func (ln *lane) tell(now time.Time) (dropped int) {
	if !ln.toldAt.IsZero() && now.Sub(ln.toldAt) < tellEvery && !ln.empty() {
		return 0
	}
	if dropped, ln.dropped = ln.dropped, 0; dropped > 0 {
		ln.toldAt = now
	}
	return dropped
}

func (ln *lane) empty() bool { return len(ln.fresh) == 0 && len(ln.again) == 0 }

// take takes a batch of chores that are due. With all, it also takes chores
// that are not due.
func (ln *lane) take(now time.Time, all bool) []chore {
	n := min(len(ln.fresh), cleanBatch)
	due := make([]chore, n, min(n+len(ln.again), cleanBatch))
	copy(due, ln.fresh)
	ln.fresh = ln.fresh[n:]
	if len(ln.fresh) == 0 {
		ln.fresh = nil
	}
	for len(due) < cleanBatch && len(ln.again) > 0 && (all || !ln.again[0].due.After(now)) {
		due = append(due, heap.Pop(&ln.again).(chore))
	}
	return due
}

// pause is the time until a chore is due.
func (ln *lane) pause(now time.Time) time.Duration {
	if len(ln.fresh) > 0 || len(ln.again) == 0 {
		return 0
	}
	return ln.again[0].due.Sub(now)
}

// repeats is a heap of chores by due.
type repeats []chore

func (r repeats) Len() int           { return len(r) }
func (r repeats) Less(i, k int) bool { return r[i].due.Before(r[k].due) }
func (r repeats) Swap(i, k int)      { r[i], r[k] = r[k], r[i] }

// Push implements [heap.Interface].
func (r *repeats) Push(c any) { *r = append(*r, c.(chore)) }

// Pop implements [heap.Interface].
func (r *repeats) Pop() any {
	last := len(*r) - 1
	c := (*r)[last]
	(*r)[last] = chore{}
	*r = (*r)[:last]
	return c
}

package turns

import (
	"container/heap"
	"time"
)

// renewals are the renewals of one class. The renewer's mutex guards them.
type renewals struct {
	due       urgent
	gathering bool // the timer is set
	inFlight  int
}

// pop takes out the most urgent one.
func (c *renewals) pop() *grant {
	next := c.due[0]
	next.dequeue()
	return next.grant
}

// renewal is a grant's place among the renewals that are due, with the bounds
// of its try. It is a part of the grant, so that a renewal allocates nothing.
// The renewer's mutex guards it.
//
// Invariant: class is set exactly while the renewal waits in class.due, at
// place.
type renewal struct {
	grant   *grant
	class   *renewals     // where it waits to be sent; nil: it does not
	place   int           // in class.due
	end     time.Time     // of the trust in the grant
	longest time.Duration // a try of it
}

// limit bounds a try that is sent now, so that there is time for another.
func (d *renewal) limit(now time.Time) time.Duration {
	return max(min(d.longest, d.end.Sub(now)*2/3), time.Millisecond)
}

// tooLate reports whether less is left than a try may take. If more is due than
// the store can do, such tries would all end unanswered. The tries behind them
// would come too late as well.
func (d *renewal) tooLate(now time.Time) bool { return d.end.Sub(now) < d.longest }

// dequeue takes d out of its class. It returns false if d was not there.
func (d *renewal) dequeue() bool {
	if d.class == nil {
		return false
	}
	heap.Remove(&d.class.due, d.place)
	d.class = nil
	return true
}

// urgent is a heap of renewals by the end of trust.
type urgent []*renewal

func (u urgent) Len() int           { return len(u) }
func (u urgent) Less(i, k int) bool { return u[i].end.Before(u[k].end) }

// Swap implements [sort.Interface].
func (u urgent) Swap(i, k int) {
	u[i], u[k] = u[k], u[i]
	u[i].place, u[k].place = i, k
}

// Push implements [heap.Interface].
func (u *urgent) Push(x any) {
	d := x.(*renewal) //nolint:forcetypeassert // only add pushes
	d.place = len(*u)
	*u = append(*u, d)
}

// Pop implements [heap.Interface].
func (u *urgent) Pop() any {
	last := len(*u) - 1
	d := (*u)[last]
	(*u)[last] = nil
	*u = (*u)[:last]
	return d
}

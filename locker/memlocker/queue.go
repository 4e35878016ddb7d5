package memlocker

import (
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// waiting is a claim in the queue of its key.
type waiting struct {
	claim *locker.Claim
	by    *Locker
	place locker.Place
	// seen is the time of the last Acquire.
	seen time.Time
	// rest is the rest that the last Acquire granted. It is all that was asked
	// for, because every peer hears.
	rest time.Duration
}

// The methods below need store.mu.

// find returns the place of owner in the queue, or -1 if there is none. It
// drops the claims that were not seen for too long.
func (e *entry) find(owner string, now time.Time) int {
	e.queue = slices.DeleteFunc(e.queue, func(w waiting) bool { return now.Sub(w.seen) >= locker.Life(w.rest) })
	return slices.IndexFunc(e.queue, func(w waiting) bool { return w.claim.Owner == owner })
}

// remove takes owner out of the queue.
func (e *entry) remove(owner string, now time.Time) {
	if i := e.find(owner, now); i >= 0 {
		e.queue = slices.Delete(e.queue, i, i+1)
	}
}

// removeAll takes all claims of l out of the queue.
func (e *entry) removeAll(l *Locker) {
	e.queue = slices.DeleteFunc(e.queue, func(w waiting) bool { return w.by == l })
}

// insert puts w into the queue, behind all claims whose place is not higher.
func (e *entry) insert(w waiting) {
	i := len(e.queue)
	for i > 0 && e.queue[i-1].place > w.place {
		i--
	}
	e.queue = slices.Insert(e.queue, i, w)
}

// queue handles c, which cannot own its key now. c stays in the queue, or
// enters it if it waits and was never there. The owners' processes are told of
// a new claim. queue fills in what a says of the queue.
func (l *Locker) queue(e *entry, c *locker.Claim, t locker.Try, now time.Time, a *locker.Answer) {
	w := waiting{c, l, t.Place, now, min(t.Rest, locker.MaxRest)}
	i := e.find(c.Owner, now)
	switch {
	case i >= 0:
		w.place = e.queue[i].place
		e.queue[i] = w
		if len(e.owners) > 0 && e.owners[0].lingers { // law 4
			l.want(e, c.Key)
		}
	case !t.Wait || t.Queued: // law 2: an owner id is queued once
		return
	default:
		if w.place == 0 {
			w.place = l.store.back()
		}
		e.insert(w)
		l.want(e, c.Key)
	}
	a.Queued, a.Place, a.Rest = true, w.place, w.rest
}

// want tells the owners of key that another waits for it, each process once.
func (l *Locker) want(e *entry, key string) {
	told := map[*Locker]bool{l: true}
	for _, s := range e.owners {
		if !told[s.by] && s.by.state == open {
			told[s.by] = true
			l.store.out = append(l.store.out, message{to: s.by, key: key})
		}
	}
}

// back returns a place behind all places that were ever given.
func (s *store) back() locker.Place {
	s.place++
	return s.place
}

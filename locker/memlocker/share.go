package memlocker

import (
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// share is one owner of a key. A claim that must own the key alone has a limit
// of 1.
type share struct {
	owner   string
	lingers bool
	limit   int
	by      *Locker
	holder  locker.Holder
	expires time.Time
}

// The methods below need store.mu.

// settle drops the shares that have ended (law 9).
func (e *entry) settle(now time.Time) {
	e.owners = slices.DeleteFunc(e.owners, func(s share) bool { return !now.Before(s.expires) })
}

// held reports whether any claim owns the key.
func (e *entry) held(now time.Time) bool {
	e.settle(now)
	return len(e.owners) > 0
}

// share returns the share of owner, and nil if there is none.
func (e *entry) share(owner string, now time.Time) *share {
	e.settle(now)
	if i := slices.IndexFunc(e.owners, func(s share) bool { return s.owner == owner }); i >= 0 {
		return &e.owners[i]
	}
	return nil
}

// answer describes the owners of a key that is held.
func (e *entry) answer(now time.Time) locker.Answer {
	a := locker.Answer{Remaining: e.lasts(now)}
	if first := &e.owners[0]; first.limit == 1 {
		a.Holder, a.Lingers = first.holder, first.lingers
	}
	return a
}

// lasts returns the time until the last share ends.
func (e *entry) lasts(now time.Time) (d time.Duration) {
	for _, s := range e.owners {
		d = max(d, s.expires.Sub(now))
	}
	return d
}

// unshare ends the share of owner.
func (e *entry) unshare(owner string) {
	e.owners = slices.DeleteFunc(e.owners, func(s share) bool { return s.owner == owner })
}

// room reports whether c may own the key beside its owners (law 9). Shares
// that have ended were dropped.
func (e *entry) room(c *locker.Claim) bool {
	n := len(e.owners)
	return n < max(c.Limit, 1) && !slices.ContainsFunc(e.owners, func(s share) bool { return n >= s.limit })
}

// behind reports whether c has to stay behind a claim in the queue (law 10).
// Whoever in front of c could own the key was served before.
func (e *entry) behind(c *locker.Claim, place locker.Place, now time.Time) bool {
	for _, w := range e.queue {
		switch {
		case w.claim.Owner == c.Owner, place != 0 && place < w.place:
			return false
		case now.Sub(w.seen) < max(w.rest, locker.LookEvery)+locker.LookEvery:
			return true
		}
	}
	return false
}

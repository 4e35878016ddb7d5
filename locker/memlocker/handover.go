package memlocker

import (
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// message is what the store tells a peer: that owner has been given key, or was
// made to lose it, or has left its queue because of a record. Without an owner,
// it tells that others want key.
type message struct {
	to         *Locker
	key, owner string
	offer      locker.Offer
	revoked    bool
	record     string
}

func (m message) tell() {
	switch {
	case m.revoked:
		m.to.waker.Revoked(m.key, m.owner)
	case m.record != "":
		m.to.waker.Recorded(m.key, m.owner, m.record)
	case m.owner == "":
		m.to.waker.Wanted(m.key)
	default:
		m.to.waker.Granted(m.key, m.owner, m.offer)
	}
}

// leave unlocks the store and sends the messages of the call.
func (s *store) leave() {
	out := slices.DeleteFunc(s.out, func(m message) bool { return m.to.mute > 0 })
	s.out = nil
	s.mu.Unlock()
	for _, m := range out {
		m.tell()
	}
}

// The methods below need s.mu.

// release ends the share of c, an owner. It queues next at the back if another
// claim waits for the key or owns it (law 7), and hands the key on.
func (l *Locker) release(e *entry, c, next *locker.Claim, now time.Time) (r locker.Released) {
	e.remove(c.Owner, now)
	e.unshare(c.Owner)
	r.Waiting = len(e.queue)
	r.Handed = r.Waiting > 0 || e.held(now)
	if r.Queued = r.Handed && next != nil; r.Queued {
		l.sign(next)
		r.Place = l.store.back()
		e.insert(waiting{claim: next, by: l, place: r.Place, seen: now})
	}
	l.store.serve(c.Key, e, now)
	return r
}

// free leaves nothing of owner at key, neither in the queue nor as an owner.
// Those who may own the key then get it.
func (s *store) free(key, owner string, now time.Time) {
	if e := s.keys[key]; e != nil {
		e.remove(owner, now)
		e.unshare(owner)
		s.serve(key, e, now)
	}
}

// serve gives key to those who wait, from the front, as long as each may own it
// beside its owners. It drops the entry if there is neither owner nor queue.
func (s *store) serve(key string, e *entry, now time.Time) {
	e.settle(now)
	e.find("", now) // drops claims that are not seen any more
	told := len(s.out)
	for len(e.queue) > 0 && e.room(e.queue[0].claim) {
		w := e.queue[0]
		e.queue = slices.Delete(e.queue, 0, 1)
		o := locker.Offer{Length: w.claim.LongOffer()} // every peer hears
		o.Token = s.grant(e, w.by, w.claim, now.Add(o.Length), now)
		s.out = append(s.out, message{to: w.by, key: key, owner: w.claim.Owner, offer: o})
	}
	for i := told; i < len(s.out); i++ {
		s.out[i].offer.Waiting = len(e.queue)
	}
	if len(e.owners) == 0 && len(e.queue) == 0 {
		s.drop(key, e)
	}
}

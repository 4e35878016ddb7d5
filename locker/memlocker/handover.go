package memlocker

import (
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// message is what the store tells a peer: that owner has been given key, or was
// made to lose it. Without an owner, it tells that others want key.
type message struct {
	to         *Locker
	key, owner string
	offer      locker.Offer
	revoked    bool
}

func (m message) tell() (known bool) {
	switch {
	case m.revoked:
		if w, ok := m.to.waker.(locker.Revoker); ok {
			w.Revoked(m.key, m.owner)
		}
		return true
	case m.owner == "":
		m.to.waker.Wanted(m.key)
		return true
	}
	return m.to.waker.Granted(m.key, m.owner, m.offer)
}

// leave unlocks the store and sends the messages of the call. A grant that
// nobody knows is given back (law 3).
func (s *store) leave() {
	out := s.out
	s.out = nil
	s.mu.Unlock()
	for _, m := range out {
		if !m.tell() {
			s.mu.Lock()
			s.free(m.key, m.owner, time.Now())
			s.leave()
		}
	}
}

// The methods below need s.mu.

// release hands on the key of c, its owner. If somebody gets it, release queues
// next at the back (law 9).
func (l *Locker) release(e *entry, c, next *locker.Claim, now time.Time) (r locker.Released) {
	e.remove(c.Owner, now)
	r.Waiting = len(e.queue)
	r.Handed = r.Waiting > 0
	if r.Queued = r.Handed && next != nil; r.Queued {
		l.sign(next)
		r.Place = l.store.back()
		e.insert(waiting{claim: next, by: l, place: r.Place, seen: now})
	}
	l.store.pass(c.Key, e, now)
	return r
}

// free leaves nothing of owner at key, neither in the queue nor as its owner.
// If the key is free then, it goes to the first in the queue.
func (s *store) free(key, owner string, now time.Time) {
	e := s.keys[key]
	if e == nil {
		return
	}
	e.remove(owner, now)
	if e.owner == owner || !e.held(now) {
		s.pass(key, e, now)
	}
}

// pass gives key to the first in its queue, or drops the entry if there is
// none.
func (s *store) pass(key string, e *entry, now time.Time) {
	if len(e.queue) == 0 {
		s.drop(key, e)
		return
	}
	first := e.queue[0]
	e.queue = slices.Delete(e.queue, 0, 1)
	o := locker.Offer{Length: first.claim.LongOffer(), Waiting: len(e.queue)} // every peer hears
	o.Token = s.grant(e, first.by, first.claim, now.Add(o.Length), now)
	s.out = append(s.out, message{to: first.by, key: key, owner: e.owner, offer: o})
}

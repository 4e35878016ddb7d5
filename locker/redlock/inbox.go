package redlock

import (
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// ear is what one node's redislocker tells. All of it is a hint, and becomes a
// Wake: the look decides.
type ear struct {
	locker *Locker
	seat   int
}

var _ locker.Revoker = (*ear)(nil)

// Granted notes that a node has handed its part of a key to owner. When a
// quorum has, the claim tries at once: sooner it would find the others still
// with the holder before. If it comes to no quorum it tries a little later.
func (e *ear) Granted(key, owner string, _ locker.Offer) (known bool) {
	l := e.locker
	b := l.known.find(owner)
	if b == nil {
		return false
	}
	n, phase, known := b.grant(e.seat)
	switch {
	case phase == over:
		return known
	case phase == holding:
		l.agenda.add(b, 0) // one of the nodes that were missing: its offer is short
	case n == l.quorum:
		l.waker.Wake(key)
	case n < l.quorum:
		l.agenda.add(b, soon())
	}
	return true
}

// Wanted passes on that others wait, once for each grant: every node says so.
func (e *ear) Wanted(key string) {
	if e.locker.known.tell(key) {
		e.locker.waker.Wanted(key)
	}
}

// Wake passes on that a key may be free.
func (e *ear) Wake(key string) { e.locker.waker.Wake(key) }

// WakeAll passes on that messages may have been missed.
func (e *ear) WakeAll() { e.locker.waker.WakeAll() }

// Revoked passes on that an operator has released a key.
func (e *ear) Revoked(key, owner string) {
	if w, ok := e.locker.waker.(locker.Revoker); ok {
		w.Revoked(key, owner)
	}
}

// registry has the claims that messages may be about: those that wait, and
// those that own their key. One that nobody ends is dropped when its time is
// over.
type registry struct {
	mu      sync.Mutex // guards what follows, and until and told of the ballots in it; never held across a callback
	byOwner map[string]*ballot
	byKey   map[string]*ballot // owners
	sweepAt int
}

// queueEnd is when a claim that waits is forgotten if it does not try again.
func queueEnd() time.Time { return time.Now().Add(3 * locker.QueueLife) }

const sweepLeast = 1024

func newRegistry() *registry {
	return &registry{byOwner: make(map[string]*ballot), byKey: make(map[string]*ballot), sweepAt: sweepLeast}
}

// add notes a claim that waits.
func (r *registry) add(b *ballot, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.until = until
	r.byOwner[b.claim.Owner] = b
	if len(r.byOwner) >= r.sweepAt {
		r.sweep()
	}
}

// hold notes a claim that owns its key.
func (r *registry) hold(b *ballot, until time.Time) {
	r.add(b, until)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey[b.claim.Key] = b
}

// leave notes that a claim owns its key no more. Messages may be about it until
// it is dropped.
func (r *registry) leave(b *ballot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[b.claim.Key] == b {
		delete(r.byKey, b.claim.Key)
	}
}

// drop forgets a claim that is over.
func (r *registry) drop(b *ballot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(b)
}

func (r *registry) forget(b *ballot) {
	if r.byOwner[b.claim.Owner] == b {
		delete(r.byOwner, b.claim.Owner)
	}
	if r.byKey[b.claim.Key] == b {
		delete(r.byKey, b.claim.Key)
	}
}

// sweep forgets what is out of date, at a cost that is spread over what was
// added since; r.mu is held.
func (r *registry) sweep() {
	now := time.Now()
	for _, b := range r.byOwner {
		if now.After(b.until) {
			r.forget(b)
		}
	}
	r.sweepAt = max(2*len(r.byOwner), sweepLeast)
}

func (r *registry) find(owner string) *ballot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.byOwner[owner]; b != nil && time.Now().Before(b.until) {
		return b
	}
	return nil
}

// fresh reports whether b owns its key for some time yet.
func (r *registry) fresh(b *ballot) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[b.claim.Key] == b && time.Now().Before(b.until)
}

// owner returns who owns key here, or nil.
func (r *registry) owner(key string) *ballot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[key]
}

// tell reports whether the owner of key is here and has not been told yet that
// others wait.
func (r *registry) tell(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.byKey[key]
	if b == nil || b.told {
		return false
	}
	b.told = true
	return true
}

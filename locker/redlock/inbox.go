package redlock

import (
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/redisnode"
	"github.com/go-lockguard/guard/locker"
)

// ear receives the messages of one node's redislocker. Each message is only a
// hint and becomes a Wake. The look decides.
type ear struct {
	locker.Waker // hears what need not be counted
	*node

	locker *Locker
}

var _ redisnode.Node = (*ear)(nil)

// Instance implements [redisnode.Node].
func (e *ear) Instance() string { return e.locker.instance }

// Granted records that a node has handed its part of a key to owner. When a
// quorum has done so, the claim tries at once. An earlier try would find that
// the other nodes still name the previous holder. If no quorum is reached, the
// claim tries a little later.
func (e *ear) Granted(key, owner string, _ locker.Offer) {
	l := e.locker
	b := l.known.find(owner)
	if b == nil {
		e.Orphaned(key, owner)
		return
	}
	n, phase, known := b.grant(e.number - 1)
	switch {
	case !known:
		e.Orphaned(key, owner)
	case phase == over:
	case phase == holding:
		l.later(b, 0) // one of the missing nodes, and its offer is short
	case n == l.quorum:
		l.waker.Wake(key)
	case n < l.quorum:
		l.later(b, soon())
	}
}

// Orphaned releases the key on this node.
func (e *ear) Orphaned(key, owner string) { e.clean(&locker.Claim{Key: key, Owner: owner}, false) }

// Wanted passes on that others wait. It does so once for each grant, because
// every node says so.
func (e *ear) Wanted(key string) {
	if e.locker.known.tell(key) {
		e.locker.waker.Wanted(key)
	}
}

// registry has the claims that messages may be about. These are the claims that
// wait and the claims that own their key. A claim that nobody ends is dropped
// when its time is over.
type registry struct {
	// mu guards the fields below and the fields until and told of their
	// ballots. It is never held across a callback.
	mu      sync.Mutex
	byOwner map[string]*ballot
	byKey   map[string]*ballot // only claims that own their key
	sweepAt int
}

// queueEnd is when a waiting claim is forgotten if it does not try again.
func queueEnd() time.Time { return time.Now().Add(3 * locker.QueueLife) }

const sweepLeast = 1024

func newRegistry() *registry {
	return &registry{byOwner: make(map[string]*ballot), byKey: make(map[string]*ballot), sweepAt: sweepLeast}
}

// add records a claim that waits.
func (r *registry) add(b *ballot, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.until = until
	r.byOwner[b.claim.Owner] = b
	if len(r.byOwner) >= r.sweepAt {
		r.sweep()
	}
}

// hold records a claim that owns its key.
func (r *registry) hold(b *ballot, until time.Time) {
	r.add(b, until)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey[b.claim.Key] = b
}

// leave records that a claim does not own its key any more. Messages may still
// be about the claim until it is dropped.
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

// sweep forgets claims whose time is over. Its cost is spread over the claims
// added since the last sweep. r.mu is held.
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

// fresh reports whether b still owns its key.
func (r *registry) fresh(b *ballot) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[b.claim.Key] == b && time.Now().Before(b.until)
}

// owner returns the claim that owns key here, or nil.
func (r *registry) owner(key string) *ballot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[key]
}

// tell reports whether the owner of key is here and must be told that others
// wait. It reports true once for each grant.
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

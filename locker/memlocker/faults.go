package memlocker

import (
	"sync"
	"time"
)

// Lose is for tests. It deletes key, a Claim.Key, as FLUSHALL or a lost
// failover would. It reports whether the key was held. Fencing tokens keep
// rising. Lose acts on the store, so on every peer.
func (l *Locker) Lose(key string) (held bool) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	e := l.store.keys[key]
	delete(l.store.keys, key)
	return e != nil && e.held(time.Now())
}

// Deafen is for tests. Until mend is called, every message to l is lost. If
// known, l notices that, as by a connection that broke. Otherwise nobody does.
//
// mend is idempotent. Each of several Deafens must be mended.
func (l *Locker) Deafen(known bool) (mend func()) {
	tell := func(n int) {
		l.store.mu.Lock()
		if l.mute += n; known {
			l.deaf += n
		}
		waker := l.waker
		l.store.mu.Unlock()
		if known && waker != nil {
			waker.WakeAll()
		}
	}
	tell(1)
	return sync.OnceFunc(func() { tell(-1) })
}

// Break is for tests. Until mend is called, every call of every peer answers
// ErrUnavailable and changes nothing, as if the store could not be reached.
// Leases taken before stay, and go on expiring.
//
// After mend the guard on l looks again at once. mend is idempotent. Each of
// several Breaks must be mended.
func (l *Locker) Break() (mend func()) {
	s := l.store
	s.mu.Lock()
	s.broken++
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.broken--
		waker := l.waker
		s.mu.Unlock()
		if waker != nil {
			waker.WakeAll()
		}
	})
}

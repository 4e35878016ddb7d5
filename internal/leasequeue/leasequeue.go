// Package leasequeue keeps the leases of callers that have no handle on them,
// because an interface for locks gives its Unlock the name alone.
package leasequeue

import (
	"sync"

	"github.com/go-lockguard/guard"
)

// Queue has the leases of each name that were acquired and not yet released.
// All but the last of a name were lost, because the key was acquired after
// them. So the caller that unlocks first is most likely the oldest. If it is
// not, it releases a lease that is lost, and never that of a caller that runs.
// The zero Queue is empty. Queue is safe for concurrent use.
type Queue struct {
	mu     sync.Mutex                // guards leases, and is never held across I/O
	leases map[string][]*guard.Lease // the oldest first; no name is left without a lease
}

// Put adds a lease. One that is lost already was not acquired last, if another
// caller has put its own first.
func (q *Queue) Put(name string, l *guard.Lease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.leases == nil {
		q.leases = map[string][]*guard.Lease{}
	}
	all := append(q.leases[name], l)
	if n := len(all); n > 1 && l.Err() != nil {
		all[n-2], all[n-1] = l, all[n-2]
	}
	q.leases[name] = all
}

// Oldest returns the oldest lease of name, or nil if there is none.
func (q *Queue) Oldest(name string) *guard.Lease {
	q.mu.Lock()
	defer q.mu.Unlock()
	if leases := q.leases[name]; len(leases) > 0 {
		return leases[0]
	}
	return nil
}

// Take removes the oldest lease of name and returns it, or nil if there is
// none. The caller releases it.
func (q *Queue) Take(name string) *guard.Lease {
	q.mu.Lock()
	defer q.mu.Unlock()
	leases := q.leases[name]
	switch len(leases) {
	case 0:
		return nil
	case 1:
		delete(q.leases, name)
	default:
		q.leases[name] = leases[1:]
	}
	return leases[0]
}

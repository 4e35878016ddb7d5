package etcdlocker

import (
	"slices"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// state is what the locker keeps of a claim.
type state = lockerkit.Page[data]

// data is what a Book has of a claim for etcd.
type data struct {
	lease clientv3.LeaseID // under which the entry was written; only calls of the claim use it

	mu     sync.Mutex     // guards what follows; never held across I/O or a callback
	keep   *locker.Record // of a Keep without an answer
	unmark bool           // see Unmark
}

// queue notes that the claim may be in the queue from now on, at entry.
func queue(st *state, entry string, lease clientv3.LeaseID) {
	st.Data.lease = lease
	st.Queue(entry)
}

// lines are what is known of the queues of the keys that claims of this process
// own alone, by Claim.Key.
type lines struct {
	mu    sync.Mutex // guards owned; never held across I/O or a callback
	owned map[string]*line
}

// line is what the owner of a key knows of its queue: the first claims, in
// their order. A line may be wrong, and the transaction of a Release finds that
// out.
type line struct {
	owner string
	queue []queued
}

// granted begins the line of a key that owner was given with queue behind it.
// If that is no news, the owner may have given the key up, and has no line
// then.
func (ls *lines) granted(key, owner string, queue []queued, news bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ln := ls.owned[key]; news || ln != nil && ln.owner == owner {
		ls.owned[key] = &line{owner: owner, queue: queue}
	}
}

// own begins the line of a key that owner has taken, unless there is one from
// its grant.
func (ls *lines) own(key, owner string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ln := ls.owned[key]; ln == nil || ln.owner != owner {
		ls.owned[key] = &line{owner: owner}
	}
}

// join puts new entries into their places in the line of an owned key.
func (ls *lines) join(key string, entries []queued) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.owned[key]
	if ln == nil {
		return
	}
	for _, e := range entries {
		i, known := slices.BinarySearchFunc(ln.queue, e, func(a, b queued) int {
			return strings.Compare(string(a.Key), string(b.Key))
		})
		if !known {
			ln.queue = slices.Insert(ln.queue, i, e)
		}
	}
}

// disown returns what is known of the queue of a key, and forgets it, because
// owner gives the key up.
func (ls *lines) disown(key, owner string) []queued {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.owned[key]
	if ln == nil || ln.owner != owner {
		return nil
	}
	delete(ls.owned, key)
	return ln.queue
}

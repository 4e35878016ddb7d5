package etcdlocker

import (
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

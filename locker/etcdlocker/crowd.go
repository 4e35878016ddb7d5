package etcdlocker

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

const (
	// grantsMax bounds the claims that get a key in one transaction, so that
	// their fencing tokens fit between those of two revisions.
	grantsMax = 64

	// runMax is how many claims a step makes owners. Each takes three
	// operations of the 128 that etcd carries out in a transaction by default.
	runMax = 20

	toldMax  = 20 // owners that a step compares or tells
	endedMax = 20 // shares that have ended and that a request deletes
)

// crowd is what stands at a key in one revision: who owns it, and who waits.
type crowd struct {
	revision int64
	owners   []owner // whose TTL has not ended by the clock of this process
	ended    []owner // the others
	queue    []waiter
}

// owner is a claim that owns a key, alone or beside others.
type owner struct {
	path     string // its key in etcd
	id       string
	limit    int
	holder   locker.Holder
	revision int64
	left     time.Duration // of its TTL, at most
}

// waiter is a claim in the queue, or one that would stand there.
type waiter struct {
	queued
	entry
	ours  bool // of the call that asks
	limit int  // 0 if the entry cannot be read: it never gets the key
}

func waiterOf(q queued) waiter {
	w := waiter{queued: q}
	if json.Unmarshal(q.Value, &w.entry) == nil {
		w.limit = max(w.Record.Limit, 1)
	}
	return w
}

// crowdOf sorts what was read of a key.
func crowdOf(l *Locker, key string, owners, queue []*mvccpb.KeyValue, revision int64) *crowd {
	c, now := &crowd{revision: revision}, time.Now()
	for _, kv := range owners {
		name := string(kv.Key)
		if name == l.lockKey(key) {
			name = key
		}
		id, r, ok := parse(kv.Value)
		s := l.sights.First(name, r.sight(kv, ok, now), now)
		o := owner{path: string(kv.Key), limit: 1, revision: kv.ModRevision, left: s.Left(now)}
		if ok {
			o.id, o.limit, o.holder = id, max(r.Limit, 1), r.Holder
		}
		if s.Over(now) {
			c.ended = append(c.ended, o)
		} else {
			c.owners = append(c.owners, o)
		}
	}
	for _, q := range queuedOf(queue) {
		c.queue = append(c.queue, waiterOf(q))
	}
	return c
}

// without takes out the owner with this id, and returns it.
func (c *crowd) without(id string) (o owner, ok bool) {
	for _, list := range []*[]owner{&c.owners, &c.ended} {
		i := slices.IndexFunc(*list, func(o owner) bool { return o.id == id })
		if i >= 0 && id != "" {
			o = (*list)[i]
			*list = slices.Delete(*list, i, i+1)
			return o, true
		}
	}
	return o, false
}

// insert puts w into its place in the queue.
func (c *crowd) insert(w waiter) {
	i, _ := slices.BinarySearchFunc(c.queue, w, func(a, b waiter) int {
		return strings.Compare(string(a.Key), string(b.Key))
	})
	c.queue = slices.Insert(c.queue, i, w)
}

// run returns those from the front of the queue that may own the key together,
// and beside its owners (laws 13 and 14). They leave the queue.
func (c *crowd) run() (run []waiter) {
	owners, limit := len(c.owners), locker.NoLimit
	for _, o := range c.owners {
		limit = min(limit, o.limit)
	}
	for len(c.queue) > 0 && len(run) < runMax {
		w := c.queue[0]
		if owners >= w.limit || owners >= limit {
			break
		}
		run, c.queue = append(run, w), c.queue[1:]
		owners, limit = owners+1, min(limit, w.limit)
	}
	return run
}

// left returns the time until the last share ends.
func (c *crowd) left() (d time.Duration) {
	for _, o := range c.owners {
		d = max(d, o.left)
	}
	return d
}

// same says that nobody came to own the key, that no share that had ended was
// renewed, and that no claim joined the queue.
func (c *crowd) same(l *Locker, key string) []clientv3.Cmp {
	queue := l.queueOf(key)
	ifs := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(l.lockKey(key)).WithRange(l.ownersEnd(key)), "<", c.revision+1),
		clientv3.Compare(clientv3.ModRevision(queue).WithRange(endOf(queue)), "<", c.revision+1),
	}
	for _, o := range c.ended {
		ifs = append(ifs, unchanged(o.path, o.revision))
	}
	return ifs
}

// stay says that the owners are there still. A claim that joins the queue, and
// a share that ends, rely on one of them to serve the queue. Without this two
// that leave together could rely on each other.
func (c *crowd) stay() (ifs []clientv3.Cmp) {
	for _, o := range c.owners[:min(len(c.owners), toldMax)] {
		ifs = append(ifs, exists(o.path))
	}
	return ifs
}

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
// and beside its owners (laws 13 and 14). The claims that run returns leave the
// queue.
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

// draft is a transaction in the making. etcd refuses one that writes a key
// twice, so a put takes the place of a delete, and the messages to an inbox
// travel as one.
type draft struct {
	l    *Locker
	key  string
	ifs  []clientv3.Cmp
	dels []string
	puts []put
	mail []letter
	also []clientv3.Op
}

type put struct {
	path, value string
	lease       clientv3.LeaseID
}

type letter struct {
	instance string
	message  message
	lease    clientv3.LeaseID
}

// settle deletes the shares that have ended.
func (b *draft) settle(c *crowd) {
	for _, o := range c.ended {
		b.dels = append(b.dels, o.path)
	}
}

// hand makes w an owner for an offer, as the nth of the transaction. behind are
// those that wait behind all who come in.
func (b *draft) hand(w waiter, nth int, behind []waiter) {
	lease := clientv3.LeaseID(w.Lease)
	if !w.ours { // else it is in no queue
		b.ifs = append(b.ifs, exists(string(w.Key)))
		b.dels = append(b.dels, string(w.Key))
	}
	r := w.Record
	r.TTL = w.Offer
	b.puts = append(b.puts, put{b.l.ownKey(b.key, w.Owner, r.Limit), lockValue(w.Owner, r), lease})
	m := message{
		Kind: granted, Key: []byte(b.key), Owner: w.Owner, Fence: w.Fence, Offer: w.Offer,
		Waiting: len(behind), Limit: r.Limit, Nth: nth,
	}
	if r.Limit <= 1 {
		for _, next := range behind[:min(len(behind), shownMax)] {
			m.Queue = append(m.Queue, next.queued)
		}
	}
	b.mail = append(b.mail, letter{r.Holder.Instance, m, lease})
}

// ops returns the operations of the transaction.
func (b *draft) ops() []clientv3.Op {
	ops := slices.Clone(b.also)
	for _, d := range b.dels {
		if !slices.ContainsFunc(b.puts, func(p put) bool { return p.path == d }) {
			ops = append(ops, clientv3.OpDelete(d))
		}
	}
	for _, p := range b.puts {
		ops = append(ops, clientv3.OpPut(p.path, p.value, clientv3.WithLease(p.lease)))
	}
	for _, m := range b.letters() {
		ops = append(ops, clientv3.OpPut(b.l.inboxOf(m.instance), encode(m.message), clientv3.WithLease(m.lease)))
	}
	return ops
}

// letters returns one letter for each inbox.
func (b *draft) letters() (all []letter) {
	for _, m := range b.mail {
		i := slices.IndexFunc(all, func(o letter) bool { return o.instance == m.instance })
		if i < 0 {
			all = append(all, m)
		} else {
			all[i].message.And = append(all[i].message.And, m.message)
		}
	}
	return all
}

// writes returns the keys that no other trip of the request may write.
func (b *draft) writes() []string {
	keys := []string{b.l.lockKey(b.key)}
	for _, m := range b.letters() {
		keys = append(keys, b.l.inboxOf(m.instance))
	}
	return keys
}

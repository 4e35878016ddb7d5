package etcdlocker

import (
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// batch is a transaction in the making. etcd refuses one that writes a key
// twice, so a put takes the place of a delete, and the messages to an inbox
// travel as one.
type batch struct {
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
func (b *batch) settle(c *crowd) {
	for _, o := range c.ended {
		b.dels = append(b.dels, o.path)
	}
}

// hand makes w an owner for an offer, as the nth of the transaction. behind are
// those that wait behind all who come in.
func (b *batch) hand(w waiter, nth int, behind []waiter) {
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
func (b *batch) ops() []clientv3.Op {
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
func (b *batch) letters() (all []letter) {
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
func (b *batch) writes() []string {
	keys := []string{b.l.lockKey(b.key)}
	for _, m := range b.letters() {
		keys = append(keys, b.l.inboxOf(m.instance))
	}
	return keys
}

package etcdlocker

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

// together is one AcquireAll.
type together struct {
	l      *Locker
	cs     []*locker.Claim
	prefix bool

	as    []locker.Answer
	held  int      // the first key that somebody else owns
	known []*crowd // of each key, without its claim; nil before the first look
	mine  []bool   // the claim owns its key already
}

func (t *together) run(ctx context.Context) error {
	t.held = len(t.cs)
	for range maxTries {
		t.as = make([]locker.Answer, len(t.cs))
		if t.known != nil {
			t.judge()
		}
		n := t.held
		if n < len(t.cs) && !t.prefix || n == 0 {
			return nil
		}
		done, err := t.take(ctx, t.cs[:n])
		if done || err != nil {
			return err
		}
	}
	return errChanging
}

// judge finds the first key that somebody else owns.
func (t *together) judge() {
	for i := range t.cs {
		at := t.known[i]
		if len(at.owners) == 0 {
			continue
		}
		a := &t.as[i]
		a.Remaining = at.left()
		if first := at.owners[0]; first.limit == 1 {
			a.Holder = first.holder
		}
		t.held = i
		return
	}
	t.held = len(t.cs)
}

// take makes all claims in cs owners, if nothing has changed. Otherwise it
// looks at all keys.
func (t *together) take(ctx context.Context, cs []*locker.Claim) (done bool, err error) {
	lease, err := t.l.keyLease(ctx, cs[0].TTL)
	if err != nil {
		return false, err
	}
	var ifs []clientv3.Cmp
	var then, els []clientv3.Op
	for i := range cs {
		is, put := t.takes(i, lease)
		ifs, then = append(ifs, is...), append(then, put)
	}
	for _, c := range t.cs {
		els = append(els, t.l.owners(c.Key))
	}
	r, err := t.l.txn(ctx, ifs, then, els)
	switch {
	case noLease(err):
		t.l.sessionFor(cs[0].TTL).lost(lease)
		return false, nil
	case err != nil:
		return false, err
	case !r.Succeeded:
		return false, t.learn(ctx, r)
	}
	for i := range cs {
		t.won(i, r.Header.Revision)
	}
	return true, nil
}

// learn takes what a refused try tells, and frees the keys whose leases have
// ended.
func (t *together) learn(ctx context.Context, r *clientv3.TxnResponse) error {
	t.known = make([]*crowd, len(t.cs))
	var ended []owner
	for i, c := range t.cs {
		at := crowdOf(t.l, c.Key, rangeOf(r, i).Kvs, nil, r.Header.Revision)
		_, mine := at.without(c.Owner)
		t.mine[i], t.known[i] = mine, at
		ended = append(ended, at.ended...)
	}
	return t.l.drop(ctx, ended)
}

// takes is the operation that makes c the owner, and what it depends on.
func (t *together) takes(i int, lease clientv3.LeaseID) (ifs []clientv3.Cmp, put clientv3.Op) {
	c := t.cs[i]
	put = clientv3.OpPut(t.l.lockKey(c.Key), lockValue(c.Owner, recordOf(c, c.TTL)), clientv3.WithLease(lease))
	if t.mine[i] {
		return owns(t.l.lockKey(c.Key), c.Owner), put
	}
	return []clientv3.Cmp{t.l.nobodys(c.Key)}, put
}

// won notes that a claim owns its key.
func (t *together) won(i int, revision int64) {
	c := t.cs[i]
	t.l.gotKey(t.l.book.Page(c))
	t.as[i].Acquired = true
	if c.Fencing {
		t.as[i].Token = token(revision, 0)
	}
}

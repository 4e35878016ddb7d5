package etcdlocker

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

// Shares reports true: the store keeps shared claims and permits.
func (*Locker) Shares(int) bool { return true }

// vacant says that the claim may own the key, for a first try that knows
// nothing of the key. Shared claims come in beside each other, and need not
// know how many there are.
func (t *attempt) vacant() []clientv3.Cmp {
	key := t.c.Key
	queue, permits := t.l.queueOf(key), t.l.permitsOf(key)
	switch {
	case t.c.Limit == locker.NoLimit:
		return []clientv3.Cmp{
			absent(t.l.lockKey(key)), none(permits, endOf(permits)), none(queue, endOf(queue)),
		}
	case t.c.Limit > 1:
		return []clientv3.Cmp{t.l.nobodys(key), none(queue, endOf(queue))}
	}
	return []clientv3.Cmp{t.l.nobodys(key)}
}

// crowded reports whether the owners or the claim may have others beside them.
func (t *attempt) crowded(f *found) bool {
	switch {
	case f == nil:
		return false
	case len(f.shares) > 0:
		return true
	}
	return t.c.Limit > 1 && (f.lock == nil || len(crowdOf(t.l, t.c.Key, f.owners(), nil, 0).ended) > 0)
}

func (f *found) owners() []*mvccpb.KeyValue {
	if f.lock == nil {
		return f.shares
	}
	return append([]*mvccpb.KeyValue{f.lock}, f.shares...)
}

// squeeze gives the key to those from the front of the queue that may own it
// beside its owners, with the claim in its place among them. If the claim is
// not one of them, it waits. squeeze returns what it has found if something has
// changed meanwhile.
func (t *attempt) squeeze(ctx context.Context, f *found) (a locker.Answer, _ *found, err error) {
	if !t.wide {
		t.wide = true
		f, err = t.look(ctx)
		return a, f, err
	}
	at := crowdOf(t.l, t.c.Key, f.owners(), f.queue, f.revision)
	if len(at.ended) > endedMax {
		if err = t.l.drop(ctx, at.ended); err == nil {
			f, err = t.look(ctx)
		}
		return a, f, err
	}
	s := &squeeze{attempt: t, found: f, at: at}
	if s.find(); !s.moves() {
		a.Remaining, a.Place = at.left(), t.Place
		if f.queued {
			return a, nil, t.stay(ctx, &a)
		}
		t.st.Leave()
		return a, nil, nil
	}
	f, err = s.send(ctx, &a)
	return a, f, err
}

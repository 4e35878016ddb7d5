package etcdlocker

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

// maxTries bounds the transactions of a call whose key changes each time.
const maxTries = 32

// attempt is one Acquire.
type attempt struct {
	l  *Locker
	c  *locker.Claim
	st *state
	locker.Try
	wide     bool  // looks read the whole queue
	nth      int   // among those that got the key in that revision
	revision int64 // in which the key was taken
}

func (t *attempt) run(ctx context.Context) (a locker.Answer, err error) {
	var f *found // nil: nothing is known yet
	if entry := t.st.Look(); t.Held || entry != "" {
		if f, err = t.look(ctx); err != nil {
			return a, err
		}
	}
	for range maxTries {
		if f != nil && f.stale {
			if t.st.Ended() {
				return a, nil
			}
			if f, err = t.look(ctx); err != nil {
				return a, err
			}
			continue
		}
		a, take := t.judge(f)
		switch {
		case a.Record != "":
			f, err = t.recalls(ctx, f)
			if err == nil && f == nil {
				return a, nil
			}
		case t.crowded(f):
			a, f, err = t.squeeze(ctx, f)
			switch {
			case err == nil && f == nil && a.Acquired:
				return t.won()
			case err == nil && f == nil:
				return a, nil
			}
		case take != nil:
			f, err = t.take(ctx, take)
			if err == nil && f == nil {
				return t.won()
			}
		case f.queued:
			err = t.stay(ctx, &a)
			return a, err
		case !t.Wait || t.Queued:
			t.st.Leave()
			return a, nil
		default:
			f, err = t.join(ctx, f, &a)
			if err == nil && f == nil && a.Queued {
				return a, nil
			}
			if err == nil && f == nil {
				return t.won()
			}
		}
		if err != nil {
			return a, err
		}
	}
	return a, errChanging
}

// found is what a look at a key has found.
type found struct {
	lock     *mvccpb.KeyValue   // nil: no claim owns the key alone
	shares   []*mvccpb.KeyValue // owners that may have others beside them
	queue    []*mvccpb.KeyValue // whole, for an attempt that looks wide
	record   *mvccpb.KeyValue   // beside the key, for a claim that recalls
	queued   bool               // our entry is in the queue
	stale    bool               // it was, but has left since, as a message has told
	revision int64
}

func (f *found) owners() []*mvccpb.KeyValue {
	if f.lock == nil {
		return f.shares
	}
	return append([]*mvccpb.KeyValue{f.lock}, f.shares...)
}

// looks are the operations that fill a found.
func (t *attempt) looks() []clientv3.Op {
	ops := []clientv3.Op{t.l.owners(t.c.Key)}
	entry := t.st.Look()
	switch {
	case t.wide:
		ops = append(ops, prefixed(t.l.queueOf(t.c.Key)))
	case entry != "":
		ops = append(ops, clientv3.OpGet(entry, clientv3.WithCountOnly()))
	}
	if t.c.Recall {
		ops = append(ops, clientv3.OpGet(t.l.recordKey(t.c.Key)))
	}
	return ops
}

func (t *attempt) foundIn(r *clientv3.TxnResponse) *found {
	f := &found{revision: r.Header.Revision}
	kvs := rangeOf(r, 0).Kvs
	if len(kvs) > 0 && string(kvs[0].Key) == t.l.lockKey(t.c.Key) {
		f.lock, kvs = kvs[0], kvs[1:]
	}
	f.shares = kvs
	n := len(r.Responses)
	if t.c.Recall {
		n--
		f.record = only(rangeOf(r, n))
	}
	if t.wide {
		f.queue = rangeOf(r, 1).Kvs
		entry := t.st.Entry()
		f.queued = slices.ContainsFunc(f.queue, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == entry })
	} else {
		f.queued = n > 1 && rangeOf(r, 1).Count > 0
	}
	f.stale = f.queued && !t.st.MayQueue()
	f.queued = f.queued && !f.stale
	return f
}

func (t *attempt) look(ctx context.Context) (*found, error) {
	r, err := t.l.txn(ctx, nil, t.looks(), nil)
	if err != nil {
		return nil, err
	}
	return t.foundIn(r), nil
}

// judge returns the comparisons by which the key can be taken, or the Answer of
// a key that another claim owns.
func (t *attempt) judge(f *found) (a locker.Answer, take []clientv3.Cmp) {
	key := t.l.lockKey(t.c.Key)
	if f != nil && f.lock != nil {
		if owner, _, ok := parse(f.lock.Value); ok && owner == t.c.Owner {
			return a, owns(key, owner)
		}
	}
	if t.c.Recall && f != nil {
		if r, ok := t.l.counts(t.c.Key, f.record, f.lock); ok {
			return locker.Answer{Record: r.value}, nil
		}
	}
	if f == nil || f.lock == nil {
		return a, t.unrecorded(t.vacant()...)
	}
	_, r, ok := parse(f.lock.Value)
	now := time.Now()
	s := t.l.sights.First(t.c.Key, r.sight(f.lock, ok, now), now)
	if s.Over(now) {
		return a, t.unrecorded(unchanged(key, f.lock.ModRevision))
	}
	a.Holder, a.Remaining = r.Holder, s.Left(now)
	return a, nil
}

// unrecorded adds that there is no record, for a claim that recalls (law 17).
func (t *attempt) unrecorded(ifs ...clientv3.Cmp) []clientv3.Cmp {
	if t.c.Recall {
		ifs = append(ifs, absent(t.l.recordKey(t.c.Key)))
	}
	return ifs
}

// recalls takes the claim out of the queue, because it has found a record.
// recalls returns nil, or what it finds if the claim was granted the key
// meanwhile.
func (t *attempt) recalls(ctx context.Context, f *found) (*found, error) {
	if !f.queued {
		t.st.Leave()
		return nil, nil
	}
	r, err := t.l.txn(ctx, nil, []clientv3.Op{clientv3.OpDelete(t.st.Look())}, nil)
	switch {
	case err != nil:
		return nil, err
	case r.Responses[0].GetResponseDeleteRange().Deleted == 0:
		return t.look(ctx)
	}
	t.st.Leave()
	return nil, nil
}

// take takes the key if the comparisons hold, and returns nil. Otherwise it
// returns what it has found.
func (t *attempt) take(ctx context.Context, ifs []clientv3.Cmp) (*found, error) {
	lease, err := t.l.keyLease(ctx, t.c.TTL)
	if err != nil {
		return nil, err
	}
	key := t.l.lockKey(t.c.Key)
	then := []clientv3.Op{t.put(lease)}
	if entry := t.st.Look(); entry != "" {
		then = append(then, clientv3.OpDelete(entry))
	}
	r, err := t.l.batcher.carry(ctx, []string{key}, ifs, then, t.looks())
	switch {
	case noLease(err):
		t.l.sessionFor(t.c.TTL).lost(lease)
		return t.look(ctx)
	case err != nil:
		return nil, err
	case !r.Succeeded:
		return t.foundIn(r), nil
	}
	t.revision = r.Header.Revision
	return nil, nil
}

// put is the operation that makes the claim the owner.
func (t *attempt) put(lease clientv3.LeaseID) clientv3.Op {
	own := t.l.ownKey(t.c.Key, t.c.Owner, t.c.Limit)
	return clientv3.OpPut(own, lockValue(t.c.Owner, recordOf(t.c, t.c.TTL)), clientv3.WithLease(lease))
}

func (t *attempt) won() (locker.Answer, error) {
	if !t.l.gotKey(t.st) {
		return locker.Answer{}, nil
	}
	a := locker.Answer{Acquired: true}
	if t.c.Fencing {
		a.Token = token(t.revision, t.nth)
	}
	return a, nil
}

// stay keeps the claim in the queue. Its entry is written again if this process
// has another etcd lease for its places by now.
func (t *attempt) stay(ctx context.Context, a *locker.Answer) error {
	entry := t.st.Look()
	place, err := t.l.placeLease(ctx)
	if err != nil {
		return err
	}
	a.Queued, a.Place = true, placeOf(entry)
	if t.st.Data.lease == place {
		return nil
	}
	r, err := t.l.txn(ctx, []clientv3.Cmp{exists(entry)},
		[]clientv3.Op{clientv3.OpPut(entry, encode(entryOf(t.c, place)), clientv3.WithLease(place))}, nil)
	switch {
	case err != nil:
		return err
	case r.Succeeded:
		queue(t.st, entry, place)
	default: // granted or dropped meanwhile; the next look finds out
	}
	return nil
}

// join puts the claim into the queue and tells the owner's process. If nobody
// owns the key any more, it takes the key in the same step, and a.Queued is
// false. Two steps could miss each other for ever, in step with another process
// that takes and frees the key. If an etcd lease has ended, it returns what it
// has found.
func (t *attempt) join(ctx context.Context, f *found, a *locker.Answer) (*found, error) {
	place, err := t.l.placeLease(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := t.l.keyLease(ctx, t.c.TTL)
	if err != nil {
		return nil, err
	}
	if a.Place = t.Place; a.Place <= 0 {
		a.Place = locker.Place(f.revision)
	}
	entry := t.l.entryKey(t.c.Key, a.Place, f.revision, t.c.Owner)
	queue(t.st, entry, place)

	e := queued{Key: []byte(entry), Value: []byte(encode(entryOf(t.c, place)))}
	m := message{Kind: wanted, Key: []byte(t.c.Key), Queue: []queued{e}}
	then := []clientv3.Op{clientv3.OpPut(entry, string(e.Value), clientv3.WithLease(place))}
	if a.Holder.Instance != "" {
		then = append(then, clientv3.OpPut(t.l.inboxOf(a.Holder.Instance), encode(m), clientv3.WithLease(place)))
	}
	// If somebody else has come between, no put is made, and r tells so.
	take := clientv3.OpTxn([]clientv3.Cmp{t.l.nobodys(t.c.Key)}, []clientv3.Op{t.put(lease)}, nil)
	r, held, err := t.sendJoin(ctx, f, then, take)
	switch {
	case noLease(err):
		t.st.Unqueue()
		t.l.places.lost(place)
		t.l.sessionFor(t.c.TTL).lost(lease)
		return t.look(ctx)
	case errors.Is(err, locker.ErrUnsent):
		t.st.Unqueue()
		return nil, err
	case err != nil:
		return nil, err
	case !r.Succeeded:
		t.st.Unqueue()
		return t.foundIn(r), nil
	case !held && !taken(r):
		t.st.Unqueue()
		return t.look(ctx)
	case !held:
		t.st.Unqueue()
		t.revision = r.Header.Revision
		return nil, nil
	}
	a.Queued = true
	return nil, nil
}

// sendJoin sends the transaction of join. The transaction queues the claim by
// queue if the key is held, and makes it the owner by take if not. If r did not
// succeed, a claim that recalls has neither, because of a record.
func (t *attempt) sendJoin(ctx context.Context, f *found, queue []clientv3.Op, take clientv3.Op) (
	r *clientv3.TxnResponse, held bool, err error,
) {
	ifHeld := []clientv3.Cmp{exists(t.l.lockKey(t.c.Key))}
	if !t.c.Recall {
		if r, err = t.l.txn(ctx, ifHeld, queue, []clientv3.Op{take}); err != nil {
			return nil, false, err
		}
		held, r.Succeeded = r.Succeeded, true
		return r, held, nil
	}
	record := t.l.recordKey(t.c.Key)
	if f.record != nil { // a mark that does not count while the key is held
		ifs := append(ifHeld, unchanged(record, f.record.ModRevision))
		r, err = t.l.txn(ctx, ifs, queue, t.looks())
		return r, true, err
	}
	r, err = t.l.txn(ctx, []clientv3.Cmp{absent(record)},
		[]clientv3.Op{clientv3.OpTxn(ifHeld, queue, []clientv3.Op{take})}, t.looks())
	if err != nil || !r.Succeeded {
		return r, false, err
	}
	return r, r.Responses[0].GetResponseTxn().Succeeded, nil
}

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

// taken reports whether the take of a join was made.
func taken(r *clientv3.TxnResponse) bool {
	last := r.Responses[len(r.Responses)-1].GetResponseTxn()
	if len(last.Responses) == 1 && last.Responses[0].GetResponseTxn() != nil { // of a claim that recalls
		last = last.Responses[0].GetResponseTxn()
	}
	return last.Succeeded
}

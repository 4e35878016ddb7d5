package etcdlocker

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

// recorded is what a Keep or a Begin has left beside a key. In etcd it stands
// as owner id, '/', isResult or isMark, the TTL in ms, and the value.
type recorded struct {
	owner string
	kind  byte
	ttl   time.Duration
	value string
}

const (
	isResult = 'k'
	isMark   = 'b'

	recordedHead = locker.OwnerLen + 2 + 8 // bytes before the value
)

func (r recorded) String() string {
	b := append([]byte(r.owner), '/', r.kind)
	b = binary.BigEndian.AppendUint64(b, uint64(r.ttl.Milliseconds()))
	return string(append(b, r.value...))
}

func parseRecorded(b []byte) (r recorded, ok bool) {
	if len(b) < recordedHead || b[locker.OwnerLen] != '/' {
		return r, false
	}
	ms := binary.BigEndian.Uint64(b[locker.OwnerLen+2:])
	return recorded{
		owner: string(b[:locker.OwnerLen]), kind: b[locker.OwnerLen+1],
		ttl: time.Duration(ms) * time.Millisecond, value: string(b[recordedHead:]),
	}, true
}

// counts returns the record that kv has, if it counts: a mark does so only when
// its claim does not own the key any more (law 20). lock is the key.
func (l *Locker) counts(key string, kv, lock *mvccpb.KeyValue) (r recorded, ok bool) {
	if kv == nil {
		return r, false
	}
	if r, ok = parseRecorded(kv.Value); !ok || lock == nil {
		return r, ok
	}
	owner, held, ours := parse(lock.Value)
	if !ours || owner != r.owner {
		return r, true
	}
	now := time.Now()
	return r, l.sights.First(key, held.sight(lock, ours, now), now).Over(now)
}

// only returns the only key that an operation has read, or nil.
func only(g *clientv3.GetResponse) *mvccpb.KeyValue {
	if len(g.Kvs) == 0 {
		return nil
	}
	return g.Kvs[0]
}

// Keep is Release of c with a record. Keep takes one request if nobody waits,
// and two otherwise.
func (l *Locker) Keep(ctx context.Context, c, next *locker.Claim, r locker.Record) (locker.Released, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
	st := l.book.Page(c)
	st.Leave()
	if st.Over() {
		_, err := l.free(ctx, c.Key, c.Owner, nil)
		if err == nil {
			err = errNotOwner
		}
		return locker.Released{}, err
	}
	released, err := l.keep(ctx, c.Key, c.Owner, next, r)
	if errors.Is(err, locker.ErrUnavailable) {
		st.Data.mu.Lock()
		st.Data.keep = &r // for Abandon
		st.Data.mu.Unlock()
	}
	return released, err
}

// keep frees the key of owner, and keeps r in the same step.
func (l *Locker) keep(ctx context.Context, key, owner string, next *locker.Claim, r locker.Record,
) (locker.Released, error) {
	h := handover{l: l, key: key, owner: owner, next: next, line: l.lines.disown(key, owner), keep: &keeping{Record: r}}
	h.place = locker.Place(l.newest.Load())
	if next != nil {
		h.nextState = l.book.Page(next)
	}
	released, err := h.run(ctx)
	switch {
	case err == nil:
		l.tellRecorded(h.keep.told, key, r.Value)
		return released, nil
	case errors.Is(err, errRecorded):
		return locker.Released{}, nil
	case errors.Is(err, locker.ErrLeaseLost):
		return released, err
	}
	return released, l.unclear(err)
}

const (
	recordMax = 4 << 10         // the longest record that travels in messages
	tellMax   = 2 * time.Second // for all messages about one record
)

// tellRecorded tells the processes of claims that recall of a record, in the
// background. The messages are hints.
func (l *Locker) tellRecorded(entries []entry, key, value string) {
	if len(entries) == 0 {
		return
	}
	if len(value) > recordMax {
		value = ""
	}
	l.life.Go(func() {
		ctx, cancel := context.WithTimeout(l.life.Context(), tellMax)
		defer cancel()
		lease, err := l.placeLease(ctx)
		for _, e := range entries {
			if err != nil {
				return
			}
			m := message{Kind: hasRecord, Key: []byte(key), Owner: e.Owner, Value: []byte(value)}
			_, err = l.client().Put(ctx, l.inboxOf(e.Record.Holder.Instance), encode(m), clientv3.WithLease(lease))
		}
	})
}

// Begin marks the key of c, in one request.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (string, error) {
	if err := l.life.Enter(); err != nil {
		return "", err
	}
	defer l.life.Leave()
	if l.book.Page(c).Over() {
		return "", errNotOwner
	}
	lease, err := l.keyLease(ctx, r.TTL)
	if err != nil {
		return "", l.unclear(err)
	}
	lock, rec := l.lockKey(c.Key), l.recordKey(c.Key)
	mark := recorded{c.Owner, isMark, r.TTL, r.Value}
	answer, err := l.txn(ctx, append(owns(lock, c.Owner), absent(rec)),
		[]clientv3.Op{clientv3.OpPut(rec, mark.String(), clientv3.WithLease(lease))},
		[]clientv3.Op{clientv3.OpTxn(owns(lock, c.Owner), []clientv3.Op{clientv3.OpGet(rec)}, nil)})
	switch {
	case err != nil:
		if noLease(err) {
			l.sessionFor(r.TTL).lost(lease)
		}
		return "", l.unclear(err)
	case answer.Succeeded:
		return "", nil
	}
	inner := answer.Responses[0].GetResponseTxn()
	if !inner.Succeeded {
		return "", errNotOwner
	}
	kv := only((*clientv3.GetResponse)(inner.Responses[0].GetResponseRange()))
	old, ok := recorded{}, false
	if kv != nil {
		old, ok = parseRecorded(kv.Value)
	}
	switch {
	case !ok:
		return "", l.unclear(errChanging)
	case old.owner == c.Owner:
		return "", nil
	}
	return old.value, nil
}

// Unmark lets the end of c remove its mark.
func (l *Locker) Unmark(c *locker.Claim) {
	data := &l.book.Page(c).Data
	data.mu.Lock()
	defer data.mu.Unlock()
	data.unmark = true
}

// Forget deletes the record of key.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.life.Enter(); err != nil {
		return false, err
	}
	defer l.life.Leave()
	lock, rec := l.lockKey(key), l.recordKey(key)
	for range maxTries {
		r, err := l.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(lock), clientv3.OpGet(rec)}, nil)
		if err != nil {
			return false, l.unclear(err)
		}
		kv, held := only(rangeOf(r, 1)), only(rangeOf(r, 0))
		if _, ok := l.counts(key, kv, held); !ok {
			return false, nil
		}
		ifs := []clientv3.Cmp{unchanged(rec, kv.ModRevision)}
		if held != nil && len(held.Value) > locker.OwnerLen &&
			string(held.Value[:locker.OwnerLen]) == string(kv.Value[:locker.OwnerLen]) {
			ifs = append(ifs, unchanged(lock, held.ModRevision)) // a mark whose claim is over for this process
		}
		if r, err = l.txn(ctx, ifs, []clientv3.Op{clientv3.OpDelete(rec)}, nil); err != nil {
			return false, l.unclear(err)
		}
		if r.Succeeded {
			return true, nil
		}
	}
	return false, l.unclear(errChanging)
}

// endRecorded keeps the record of a Keep without an answer (law 19), or removes
// the mark of a claim under which nothing was done.
func (l *Locker) endRecorded(ctx context.Context, st *state) error {
	c := st.Claim
	st.Data.mu.Lock()
	record, unmark := st.Data.keep, st.Data.unmark
	st.Data.mu.Unlock()
	var err error
	switch {
	case record != nil && !st.Over():
		_, err = l.keep(ctx, c.Key, c.Owner, nil, *record)
	case unmark:
		_, err = l.freeOf(ctx, st, nil)
	}
	if errors.Is(err, locker.ErrLeaseLost) {
		return nil
	}
	return err
}

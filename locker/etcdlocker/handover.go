package etcdlocker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

// handover is one Release. Its transaction is made of what the releaser
// believes of the key and its queue, and compares that. If it is wrong, the
// answer tells what is so, and the next try is made of that.
type handover struct {
	l          *Locker
	key, owner string
	next       *locker.Claim
	nextState  *state

	nobodys bool     // nobody owns the key
	line    []queued // the first in the queue, in their order
	behind  int      // claims in the queue that are not in line
	place   locker.Place

	tail queued // the entry of next in the present try; empty if next is not queued

	unmark bool     // the mark of owner goes too
	keep   *keeping // nil unless it is a Keep
}

// keeping is what a Keep needs besides.
type keeping struct {
	locker.Record

	whole int64            // the revision at which line was the whole queue; 0 if it is not known
	lease clientv3.LeaseID // of the record in the present try
	all   []queued         // the queue then
	told  []entry          // claims that recall, which leave the queue
	again bool             // the record's lease was made anew
}

// handOver carries h out.
func (h *handover) handOver(ctx context.Context) (locker.Released, error) {
	h.line = h.l.lines.disown(h.key, h.owner)
	h.place = locker.Place(h.l.newest.Load())
	if h.next != nil {
		h.nextState = h.l.book.Page(h.next)
	}
	r, err := h.run(ctx)
	switch {
	case err == errCrowd: //nolint:errorlint // itself
		return (&step{l: h.l, key: h.key, owner: h.owner, next: h.next, also: h.unmarks()}).leave(ctx)
	case err == nil && h.nobodys:
		return locker.Released{}, errNotOwner
	case err == nil, err == errNotOwner: //nolint:errorlint // itself
		return r, err
	}
	return r, h.l.unclear(err)
}

func (h *handover) run(ctx context.Context) (locker.Released, error) {
	for range maxTries {
		ifs, then, err := h.plan(ctx)
		if err != nil {
			return locker.Released{}, err
		}
		els := h.looks()
		r, err := h.l.batcher.carry(ctx, h.writes(), ifs, then, els)
		switch {
		case noLease(err):
			err = h.leaseGone(ctx)
		case err != nil:
			return locker.Released{Queued: h.queuesNext()}, err
		case r.Succeeded:
			return h.done(r), nil
		default:
			err = h.learn(r)
		}
		if err != nil {
			return locker.Released{}, err
		}
	}
	return locker.Released{}, errChanging
}

// planKeep makes the transaction of a try that keeps a record. The claims that
// recall leave the queue in the same step, so it must know the queue whole. The
// first try takes it for empty.
func (h *handover) planKeep(ctx context.Context) (ifs []clientv3.Cmp, then []clientv3.Op, err error) {
	lock, queue, rec := h.l.lockKey(h.key), h.l.queueOf(h.key), h.l.recordKey(h.key)
	h.tail = queued{}
	if h.keep.lease, err = h.l.keyLease(ctx, h.keep.TTL); err != nil {
		return nil, nil, err
	}
	r := recorded{h.owner, isResult, h.keep.TTL, h.keep.Value}
	then = append(h.takeOut(), clientv3.OpPut(rec, r.String(), clientv3.WithLease(h.keep.lease)))
	ifs = owns(lock, h.owner)
	if h.keep.whole == 0 {
		ifs = append(ifs, none(queue, endOf(queue)))
	} else {
		ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(queue).WithRange(endOf(queue)), "<", h.keep.whole+1))
	}
	if len(h.line) == 0 {
		return ifs, append(then, clientv3.OpDelete(lock)), nil
	}
	if e, ok := h.first(); ok && e.Record.Limit > 1 { // those behind it that may share the key find it
		then = append(then, clientv3.OpDelete(lock))
	}
	hand, err := h.hand(ctx)
	return append(ifs, exists(string(h.line[0].Key))), append(then, hand...), err
}

// takeOut returns the operations that take the claims that recall out of the
// queue. The others are the line then.
func (h *handover) takeOut() (deletes []clientv3.Op) {
	h.keep.told, h.line = nil, nil
	from, last := "", "" // claims that recall stand from there to there
	end := func() {
		if from != "" {
			deletes = append(deletes, clientv3.OpDelete(from, clientv3.WithRange(last+"\x00")))
		}
		from = ""
	}
	for _, q := range h.keep.all {
		var e entry
		if json.Unmarshal(q.Value, &e) != nil || !e.Recall {
			h.line = append(h.line, q)
			end()
			continue
		}
		h.keep.told, last = append(h.keep.told, e), string(q.Key)
		if from == "" {
			from = last
		}
	}
	end()
	return deletes
}

// learnForKeep is learn for a Keep.
func (h *handover) learnForKeep(r *clientv3.TxnResponse) error {
	h.keep.whole, h.keep.all = r.Header.Revision, h.line
	lock, rec := only(rangeOf(r, 0)), only(rangeOf(r, 2))
	if lock != nil && strings.HasPrefix(string(lock.Value), h.owner+"/") {
		return nil
	}
	if rec != nil {
		old, ok := parseRecorded(rec.Value)
		if ok && old.kind == isResult && old.owner == h.owner && old.value == h.keep.Value {
			return errRecorded
		}
	}
	return errNotOwner
}

// looks are the operations from which learn learns.
func (h *handover) looks() []clientv3.Op {
	lock, queue := h.l.owners(h.key), h.l.queueOf(h.key)
	if h.keep != nil {
		return []clientv3.Op{lock, prefixed(queue), clientv3.OpGet(h.l.recordKey(h.key))}
	}
	return []clientv3.Op{lock, prefixed(queue, clientv3.WithLimit(readMax))}
}

// queuesNext reports whether the present try queues next.
func (h *handover) queuesNext() bool { return len(h.tail.Key) > 0 }

// writes returns the keys that the present try may share with others.
func (h *handover) writes() []string {
	keys := []string{h.l.lockKey(h.key)}
	if e, ok := h.first(); ok {
		keys = append(keys, h.l.inboxOf(e.Record.Holder.Instance))
	}
	return keys
}

// first returns the first in the queue. An entry that cannot be read counts as
// none.
func (h *handover) first() (e entry, ok bool) {
	if len(h.line) == 0 || json.Unmarshal(h.line[0].Value, &e) != nil {
		return entry{}, false
	}
	return e, true
}

// plan makes the transaction of a try.
func (h *handover) plan(ctx context.Context) (ifs []clientv3.Cmp, then []clientv3.Op, err error) {
	if h.keep != nil {
		return h.planKeep(ctx)
	}
	if e, ok := h.first(); ok && e.Record.Limit > 1 {
		return nil, nil, errCrowd
	}
	ifs, then, err = h.planFree(ctx)
	return ifs, append(then, h.unmarks()...), err
}

// unmarks are the operations that remove the mark of owner.
func (h *handover) unmarks() []clientv3.Op {
	if !h.unmark {
		return nil
	}
	rec := h.l.recordKey(h.key)
	return []clientv3.Op{clientv3.OpTxn(owns(rec, h.owner), []clientv3.Op{clientv3.OpDelete(rec)}, nil)}
}

// planFree makes the transaction of a Release.
func (h *handover) planFree(ctx context.Context) (ifs []clientv3.Cmp, then []clientv3.Op, err error) {
	lock, queue := h.l.lockKey(h.key), h.l.queueOf(h.key)
	ifs = owns(lock, h.owner)
	if h.nobodys {
		ifs = []clientv3.Cmp{h.l.nobodys(h.key)}
	}
	h.tail = queued{}
	if len(h.line) == 0 {
		return append(ifs, none(queue, endOf(queue))), []clientv3.Op{clientv3.OpDelete(lock)}, nil
	}
	entry := string(h.line[0].Key)
	ifs = append(ifs, exists(entry), none(queue, entry))
	hand, err := h.hand(ctx)
	if h.queuesNext() {
		ifs = append(ifs, none(h.l.placeKey(h.key, h.place), endOf(queue))) // law 9
	}
	return ifs, append([]clientv3.Op{prefixed(queue, clientv3.WithCountOnly())}, hand...), err
}

// hand returns the operations that give the key to the first in line.
func (h *handover) hand(ctx context.Context) (then []clientv3.Op, err error) {
	e, ok := h.first()
	if !ok {
		return nil, fmt.Errorf("%w: an entry of the queue is not ours", locker.ErrUnavailable)
	}
	lease := clientv3.LeaseID(e.Lease)
	then = append(then, clientv3.OpDelete(string(h.line[0].Key)))
	if h.next != nil && !h.nobodys {
		put, err := h.queueNext(ctx)
		if err != nil {
			return nil, err
		}
		then = append(then, put)
	}
	r := e.Record
	r.TTL = e.Offer
	return append(then,
		clientv3.OpPut(h.l.ownKey(h.key, e.Owner, r.Limit), lockValue(e.Owner, r), clientv3.WithLease(lease)),
		clientv3.OpPut(h.l.inboxOf(r.Holder.Instance), encode(h.grant(e)), clientv3.WithLease(lease))), nil
}

// grant is the message to the first in the queue. The message brings the next
// claims, so that its own Release knows them.
func (h *handover) grant(e entry) message {
	behind := h.line[1:]
	m := message{
		Kind: granted, Key: []byte(h.key), Owner: e.Owner, Fence: e.Fence, Offer: e.Offer,
		Waiting: len(behind) + h.behind, Limit: e.Record.Limit,
	}
	m.Queue = append(m.Queue, behind[:min(len(behind), shownMax)]...)
	if h.queuesNext() {
		m.Waiting++
		if h.behind == 0 && len(behind) < shownMax {
			m.Queue = append(m.Queue, h.tail)
		}
	}
	return m
}

// queueNext returns the operation that puts next behind all others.
func (h *handover) queueNext(ctx context.Context) (clientv3.Op, error) {
	place, err := h.l.placeLease(ctx)
	if err != nil {
		return clientv3.Op{}, err
	}
	h.place = max(h.place, placeOf(string(h.line[len(h.line)-1].Key))+1)
	h.tail = queued{
		Key:   []byte(h.l.entryKey(h.key, h.place, int64(h.place), h.next.Owner)),
		Value: []byte(encode(entryOf(h.next, place))),
	}
	queue(h.nextState, string(h.tail.Key), place)
	return clientv3.OpPut(string(h.tail.Key), string(h.tail.Value), clientv3.WithLease(place)), nil
}

// done is the result of a try that succeeded.
func (h *handover) done(r *clientv3.TxnResponse) locker.Released {
	if len(h.line) == 0 {
		return locker.Released{}
	}
	released := locker.Released{Handed: true}
	if h.keep == nil {
		released.Waiting = int(rangeOf(r, 0).Count)
	} else {
		released.Waiting = len(h.line)
	}
	if h.queuesNext() {
		released.Queued, released.Place = true, h.place
	}
	return released
}

// learn takes what a refused try tells. learn returns errNotOwner if there is
// nothing to hand over.
func (h *handover) learn(r *clientv3.TxnResponse) error {
	h.notQueued()
	locks, queue := rangeOf(r, 0).Kvs, rangeOf(r, 1)
	h.line, h.behind = queuedOf(queue.Kvs), int(queue.Count)-len(queue.Kvs)
	h.place = locker.Place(r.Header.Revision)
	if h.keep != nil {
		return h.learnForKeep(r)
	}
	h.nobodys = len(locks) == 0
	switch {
	case h.nobodys && len(h.line) == 0:
		return errNotOwner
	case !h.nobodys && !strings.HasPrefix(string(locks[0].Value), h.owner+"/"):
		return errNotOwner
	}
	return nil
}

// notQueued undoes what queueNext has noted.
func (h *handover) notQueued() {
	if h.queuesNext() {
		h.nextState.Unqueue()
		h.tail = queued{}
	}
}

// leaseGone finds out which etcd lease of a try has ended. If it was ours,
// there is another now. Otherwise the first in the queue is dropped, because
// its process has not renewed its lease for QueueLife (law 7).
func (h *handover) leaseGone(ctx context.Context) error {
	if k := h.keep; k != nil && !k.again {
		k.again = true
		h.l.sessionFor(k.TTL).lost(k.lease)
		h.notQueued()
		return nil
	}
	if h.queuesNext() {
		h.notQueued()
		if lives, err := h.l.places.lives(ctx); err != nil || !lives {
			return err
		}
	}
	if len(h.line) == 0 {
		return nil
	}
	gone := string(h.line[0].Key)
	_, err := h.l.txn(ctx, nil, []clientv3.Op{clientv3.OpDelete(gone)}, nil)
	h.line = h.line[1:]
	if k := h.keep; k != nil {
		k.all = slices.DeleteFunc(k.all, func(q queued) bool { return string(q.Key) == gone })
	}
	return err
}

// errRecorded ends a handover whose record is there by an earlier try.
var errRecorded = errors.New("the record is there")

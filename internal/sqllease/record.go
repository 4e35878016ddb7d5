package sqllease

import (
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// record is what the last Keep or Begin has left beside a key, see laws 16 to
// 20 of package locker. It lies in the row of its key, so that both change in
// one step.
type record struct {
	owner string // of the claim that left it; "" is none
	mark  bool   // it counts while its owner does not own the key
	ends  int64
	size  int64
	value []byte // if it was read, see request.wantsValue
	dirty bool   // value must be written
}

// left returns the record, or nil if there is none or it has ended.
func (r *row) left() *record {
	if r.record.owner == "" || r.record.ends <= r.now {
		return nil
	}
	return &r.record
}

// counting returns the record if it counts (law 20).
func (r *row) counting() *record {
	if left := r.left(); left != nil && (!left.mark || !r.owned(left.owner)) {
		return left
	}
	return nil
}

// leave makes the value of q the record.
func (r *row) leave(q *request, mark bool) {
	r.record = record{
		owner: q.owner, mark: mark, ends: r.now + r.grain + q.ttl,
		size: int64(len(q.value)), value: q.value, dirty: true,
	}
	r.dirty = true
}

// unleave deletes the record.
func (r *row) unleave() { r.record, r.dirty = record{value: []byte{}, dirty: true}, true }

// recall returns the record that the claim of q finds in place of the key. The
// claim leaves the queue then.
func (r *row) recall(q *request) *record {
	found := r.counting()
	if !q.recall || found == nil || r.owned(q.owner) {
		return nil
	}
	n := len(r.queue)
	r.queue = slices.DeleteFunc(r.queue, func(w waiter) bool { return w.Owner == q.owner })
	r.dirty = r.dirty || len(r.queue) < n
	return found
}

// keep is a release that leaves a record. All claims that recall leave the
// queue.
func (r *row) keep(q *request) result {
	if !r.owned(q.owner) {
		left := r.left()
		again := left != nil && left.owner == q.owner && !left.mark
		res := r.release(q)
		res.ok = again // by an earlier try, which has done all
		return res
	}
	r.leave(q, false)
	r.queue = slices.DeleteFunc(r.queue, func(w waiter) bool { return w.Recall })
	return r.release(q)
}

// begin leaves a mark, or finds the record of another claim.
func (r *row) begin(q *request) result {
	if !r.owned(q.owner) {
		return result{}
	}
	if left := r.left(); left != nil && left.owner != q.owner {
		return result{ok: true, record: left.value}
	}
	r.leave(q, true)
	return result{ok: true}
}

// unmark deletes the mark of a claim under which nothing was done.
func (r *row) unmark(owner string) {
	if r.record.mark && r.record.owner == owner {
		r.unleave()
	}
}

// forget deletes the record of owner if it counts. Without an owner it deletes
// nothing, and returns the owner of a record that counts.
func (r *row) forget(owner string) result {
	found := r.counting()
	switch {
	case found == nil:
		return result{}
	case owner == "":
		return result{ok: true, record: []byte(found.owner)}
	case found.owner != owner:
		return result{}
	}
	r.unleave()
	return result{ok: true}
}

// recordState describes the record that a claim would find.
func (r *row) recordState() locker.RecordState {
	found := r.counting()
	if found == nil {
		return locker.RecordState{}
	}
	rest := time.Duration(max(found.ends-r.now-r.grain, 1)) * time.Microsecond
	return locker.RecordState{Size: int(found.size), Remaining: rest}
}

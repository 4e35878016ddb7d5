package sqllease

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// touch is how old the record of the last look may be before a look is written.
const touch = 400 * time.Millisecond

// row is one key in the table. Times are µs since 1970 by the server's clock.
//
// Invariant: no owner is in an entry of queue, and queue is in the order of
// places. Either owner is "" or there is no crowd.
type row struct {
	version int64 // changes with each write; 0 before the first
	owner   string
	ends    int64 // when the lease of owner ends; also when the key was last owned
	token   int64 // first of the last block of tokens
	holder  []byte
	crowd   []share // claims with a limit above 1 that own the key together
	queue   []waiter
	record  record

	now   int64 // when the row was read
	grain int64 // resolution of the server's clock, by which leases end later
	dirty bool  // changed since it was read
}

// record is what the last Keep or Begin has left beside a key, see laws 16 to
// 20 of package locker. The record lies in the row of its key, so that both
// change in one step.
type record struct {
	owner string // of the claim that left it; "" is none
	mark  bool   // it counts while its owner does not own the key
	ends  int64
	size  int64
	value []byte // if it was read, see request.wantsValue
	dirty bool   // value must be written
}

// waiter is a claim in the queue. The table keeps it as JSON.
type waiter struct {
	Owner   string          `json:"o"`
	Place   int64           `json:"p"`
	Seen    int64           `json:"s"`
	Offer   int64           `json:"f"` // length, in µs
	Limit   int             `json:"l,omitempty"`
	Fencing bool            `json:"x,omitempty"`
	Recall  bool            `json:"y,omitempty"`
	Holder  json.RawMessage `json:"h"`
}

// share is one of several owners of a key. The table keeps it as JSON.
type share struct {
	Owner  string          `json:"o"`
	Limit  int             `json:"l"`
	Ends   int64           `json:"e"`
	Token  int64           `json:"t,omitempty"` // first of its last block of tokens
	Holder json.RawMessage `json:"h"`
}

// keepsOut is for how long after its last look a claim keeps those
// behind it from a crowd (law 14).
const keepsOut = 2 * locker.LookEvery

// verb is what a call does.
type verb int

const (
	acquire verb = iota
	release
	fence
	revoke // a release that does nothing unless owner owns the key
	renew  // of a share
	keep   // a release that leaves a record
	begin
	forget
)

// request is a call, without what belongs to Go.
type request struct {
	verb       verb
	key, owner string
	ttl, offer int64 // µs; of the lease, or of the record; offer is that of next in a release
	limit      int
	fencing    bool
	holder     []byte
	try        locker.Try // of an acquire
	next       string     // owner id of the claim that a release queues, or ""
	recall     bool       // of the claim that acquires
	value      []byte     // of the record
	unmark     bool       // the release deletes the mark of owner
}

// wantsValue reports whether the answer may hold the value of a record.
func (q *request) wantsValue() bool { return q.recall || q.verb == begin }

// result is the answer to a request.
type result struct {
	ok      bool   // acquired, released, fenced, kept, marked or forgotten
	record  []byte // found in place of the key
	token   int64
	holder  []byte // of another owner, with the time that its lease has left
	remains int64
	queued  bool
	place   int64
	waiting int
	handed  bool
}

// answer returns the answer of an Acquire.
func (r *result) answer() locker.Answer {
	switch {
	case r.record != nil:
		return locker.Answer{Record: string(r.record)}
	case r.ok:
		return locker.Answer{Acquired: true, Token: uint64(r.token)}
	}
	return locker.Answer{
		Holder: lockerkit.HolderOf(r.holder), Remaining: time.Duration(r.remains) * time.Microsecond,
		Queued: r.queued, Place: locker.Place(r.place),
	}
}

// alone reports whether a claim owns the key that must be alone.
func (r *row) alone() bool { return r.owner != "" && r.ends > r.now }

// free reports whether nobody owns the key.
func (r *row) free() bool { return !r.alone() && len(r.crowd) == 0 }

// remains returns how long the last lease of a row that is not free lasts at
// least: never more than its TTL, to which own adds a grain of the clock.
func (r *row) remains() int64 {
	ends := r.now
	for _, s := range r.owners() {
		ends = max(ends, s.Ends)
	}
	return max(ends-r.now-r.grain, 1)
}

// owned reports whether owner owns the key.
func (r *row) owned(owner string) bool { return r.owner == owner && r.alone() || r.share(owner) != nil }

// alive reports whether w may still be granted the key.
func (r *row) alive(w waiter) bool { return w.Seen > r.now-locker.QueueLife.Microseconds() }

// waits reports whether the claim of owner is in the queue.
func (r *row) waits(owner string) bool {
	return slices.ContainsFunc(r.queue, func(w waiter) bool { return w.Owner == owner })
}

// waiting counts the claims that may still be granted the key.
func (r *row) waiting() (n int) {
	for _, w := range r.queue {
		if r.alive(w) {
			n++
		}
	}
	return n
}

// own makes owner an owner for d µs. own returns the first of its tokens, if
// fencing.
func (r *row) own(owner string, limit int, d int64, holder []byte, fencing bool) (token int64) {
	if fencing {
		token = r.block()
	}
	ends := r.now + r.grain + d
	if limit > 1 {
		r.join(share{owner, limit, ends, token, holder})
		return token
	}
	r.owner, r.ends, r.holder, r.dirty = owner, ends, holder, true
	return token
}

// block reserves a block of tokens, and returns the first. The clock is ahead
// of all tokens of a row that was deleted, unless it was set back.
func (r *row) block() int64 {
	r.token, r.dirty = max(r.token+locker.FenceBlock, r.now), true
	return r.token
}

// back returns a place behind all claims.
func (r *row) back() int64 {
	if n := len(r.queue); n > 0 {
		return max(r.now, r.queue[n-1].Place+1)
	}
	return r.now
}

// next returns the version to be written.
func (r *row) next() int64 {
	if r.version == 0 {
		return 1 + rand.Int64N(1<<62) // unlike that of an earlier row of the same key
	}
	return r.version + 1
}

// apply is the protocol: it changes r, and sets r.dirty if that must be written
// before the result is true.
func (r *row) apply(q *request) result {
	r.settle()
	switch q.verb {
	case acquire:
		return r.acquire(q)
	case fence:
		if !r.owned(q.owner) {
			return result{}
		}
		return result{ok: true, token: r.block()}
	case revoke:
		if !r.owned(q.owner) {
			return result{}
		}
	case renew:
		return r.renew(q)
	case keep:
		return r.keep(q)
	case begin:
		return r.begin(q)
	case forget:
		return r.forget(q.owner)
	case release:
		if q.unmark {
			r.unmark(q.owner)
		}
	}
	return r.release(q)
}

func (r *row) acquire(q *request) result {
	if found := r.recall(q); found != nil {
		return result{record: found.value}
	}
	if len(r.crowd) > 0 { // a share may have ended, and left room for those who wait
		r.serve()
	}
	if r.owned(q.owner) || r.room(q.limit) && (r.free() || !r.behind(q)) { // law 8: a free key is anybody's
		r.leaves(q.owner)
		return result{ok: true, token: r.own(q.owner, q.limit, q.ttl, q.holder, q.fencing)}
	}
	res := result{holder: r.holder, remains: r.remains()}
	at := slices.IndexFunc(r.queue, func(w waiter) bool { return w.Owner == q.owner })
	switch {
	case at >= 0 && r.alive(r.queue[at]):
		w := &r.queue[at]
		if w.Seen <= r.now-touch.Microseconds() {
			w.Seen, r.dirty = r.now, true
		}
		res.queued, res.place = true, w.Place
	case q.try.Wait && !q.try.Queued: // law 2: an owner id is queued once
		res.queued, res.place = true, r.enqueue(q)
	}
	return res
}

// enqueue puts the claim of q into the queue, behind those with its place, and
// drops claims that were not seen for too long.
func (r *row) enqueue(q *request) (place int64) {
	place = int64(q.try.Place)
	if place == 0 {
		place = r.back()
	}
	r.leaves(q.owner)
	at, _ := slices.BinarySearchFunc(r.queue, place+1, func(w waiter, p int64) int { return cmp.Compare(w.Place, p) })
	w := waiter{q.owner, place, r.now, q.offer, q.limit, q.fencing, q.recall, q.holder}
	r.queue, r.dirty = slices.Insert(r.queue, at, w), true
	return place
}

// leaves takes owner out of the queue, and claims that were not seen for too
// long.
func (r *row) leaves(owner string) {
	n := len(r.queue)
	r.queue = slices.DeleteFunc(r.queue, func(w waiter) bool { return !r.alive(w) || w.Owner == owner })
	r.dirty = r.dirty || len(r.queue) < n
}

// release takes the owner of q out of key and queue. Those who wait and may own
// the key then get it.
func (r *row) release(q *request) result {
	res := result{ok: r.owned(q.owner)}
	back := r.back()
	r.leaves(q.owner)
	r.disown(q.owner)
	res.waiting = len(r.queue)
	res.handed = res.ok && (res.waiting > 0 || !r.free())
	if res.handed && q.next != "" { // law 9: behind all
		res.queued, res.place = true, back
		r.queue = append(r.queue, waiter{q.next, back, r.now, q.offer, q.limit, q.fencing, false, q.holder})
		r.dirty = true
	}
	r.serve()
	return res
}

// disown ends the hold of owner.
func (r *row) disown(owner string) {
	if r.owner == owner {
		r.owner, r.ends, r.holder, r.dirty = "", min(r.ends, r.now), nil, true
	}
	n := len(r.crowd)
	r.crowd = slices.DeleteFunc(r.crowd, func(s share) bool { return s.Owner == owner })
	r.dirty = r.dirty || len(r.crowd) < n
}

// serve gives the key to those who wait, from the front, as long as each may
// own it beside its owners.
func (r *row) serve() {
	for r.leaves(""); len(r.queue) > 0 && r.room(r.queue[0].Limit); {
		first := r.queue[0]
		r.queue = slices.Delete(r.queue, 0, 1)
		r.own(first.Owner, first.Limit, first.Offer, first.Holder, first.Fencing)
	}
}

// settle drops the shares that have ended (law 13).
func (r *row) settle() {
	r.crowd = slices.DeleteFunc(r.crowd, func(s share) bool { return s.Ends <= r.now })
}

// share returns the share of owner in a crowd, or nil.
func (r *row) share(owner string) *share {
	if i := slices.IndexFunc(r.crowd, func(s share) bool { return s.Owner == owner }); i >= 0 {
		return &r.crowd[i]
	}
	return nil
}

// owners returns all owners of the key.
func (r *row) owners() []share {
	if r.alone() {
		return []share{{r.owner, 1, r.ends, r.token, r.holder}}
	}
	return r.crowd
}

// room reports whether a claim of that limit may own the key beside its owners
// (law 13).
func (r *row) room(limit int) bool {
	n := len(r.crowd)
	return !r.alone() && n < max(limit, 1) && !slices.ContainsFunc(r.crowd, func(s share) bool { return n >= s.Limit })
}

// behind reports whether the claim of q has to stay behind a claim in the queue
// (law 14). Those in front of it that may own the key were served before.
func (r *row) behind(q *request) bool {
	for _, w := range r.queue {
		switch {
		case w.Owner == q.owner, q.try.Place != 0 && int64(q.try.Place) < w.Place:
			return false
		case w.Seen > r.now-keepsOut.Microseconds():
			return true
		}
	}
	return false
}

// join makes the claim with s one of several owners.
func (r *row) join(s share) {
	if own := r.share(s.Owner); own != nil {
		*own = s
	} else {
		r.crowd = append(r.crowd, s)
	}
	r.owner, r.holder, r.dirty = "", nil, true
}

// renew gives a share its full TTL again.
func (r *row) renew(q *request) result {
	own := r.share(q.owner)
	if own == nil {
		return result{}
	}
	own.Ends, r.dirty = r.now+r.grain+q.ttl, true
	return result{ok: true}
}

// describe fills in who owns the key, which is held.
func (r *row) describe(s *locker.KeyState) {
	s.Held, s.Remaining = true, time.Duration(r.remains())*time.Microsecond
	if r.alone() {
		s.Owner, s.Holder = r.owner, lockerkit.HolderOf(r.holder)
		return
	}
	s.Limit = locker.NoLimit
	for i, own := range r.crowd {
		s.Limit = min(s.Limit, own.Limit)
		if i < locker.MaxListed {
			s.Owners = append(s.Owners, locker.Waiter{Owner: own.Owner, Holder: lockerkit.HolderOf(own.Holder)})
		}
	}
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
	left := time.Duration(max(found.ends-r.now-r.grain, 1)) * time.Microsecond
	return locker.RecordState{Size: int(found.size), Remaining: left}
}

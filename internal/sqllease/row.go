package sqllease

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

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
	verb             verb
	key, owner       string
	ttl, offer       int64 // µs; of the lease, or of the record; offer is that of next in a release
	limit            int
	fencing          bool
	holder           []byte
	place            int64
	wait, wasInQueue bool
	next             string // owner id of the claim that a release queues, or ""
	recall           bool   // of the claim that acquires
	value            []byte // of the record
	unmark           bool   // the release deletes the mark of owner
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

// alone reports whether a claim owns the key that must be alone.
func (r *row) alone() bool { return r.owner != "" && r.ends > r.now }

// free reports whether nobody owns the key.
func (r *row) free() bool { return !r.alone() && len(r.crowd) == 0 }

// remains returns how long the last lease of a row that is not free lasts at
// least. This is never more than its TTL, to which own adds a grain of the
// clock.
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

// own makes owner an owner for d µs. It returns the first of its tokens, if
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

// apply is the protocol. It changes r, and sets r.dirty if that must be written
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
	case q.wait && !q.wasInQueue: // law 2: an owner id is queued once
		res.queued, res.place = true, r.enqueue(q)
	}
	return res
}

// enqueue puts the claim of q into the queue, behind those with its place. It
// drops claims that were not seen for too long.
func (r *row) enqueue(q *request) (place int64) {
	place = q.place
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

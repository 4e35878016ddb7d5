package rowlocker

import (
	"cmp"
	"encoding/json"
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
// places.
type row struct {
	version int64 // changes with each write; 0: there is no row
	wrote   int64 // the stamp of the last write
	tag     string
	token   int64 // first of the last block of tokens; below 0 see block
	owners  []share
	queue   []waiter
	record  record

	now    int64 // when the row was read
	grain  int64 // resolution of the server's clock, by which leases end later
	seq    int64 // from which places are made
	blocks bool  // tokens are made of versions
	single bool  // a long record stands in the row of its key, too
	grants int64 // blocks of the next write
	dirty  bool  // changed since it was read

	dead   func(inst string) bool // reports whether a process has no pulse; nil: the store does not tell
	doubts []string               // processes whose claims keep others out

	open bool // the row says: shared, nobody waits; shares come and go beside it
	held bool // the row began with an owner id

	unsure int  // owners that got the key since a write that no ticket could escape
	verify bool // the next write is such a one: a ticket that r lacks refuses it

	closing bool     // it was open: shares stand beside it still
	shared  []string // owners with a limit above 1, as they were read

	heirs   []waiter // got the key from the queue
	joined  bool     // the owners must hear of those who wait
	revoked []string // instances whose claims an operator made to lose the key
	revokes bool     // the write that was read has done so

	settled []share  // those that have ended, for this process
	tickets []Ticket // that were read with the row, and are in queue
	finds   []waiter // left the queue for a record
}

// term is the time of something that ends. It begins with the write that has
// the stamp Since.
type term struct {
	Since  int64 `json:"s,omitempty"` // 0: the write that follows, or that was read
	Length int64 `json:"d"`
	Ends   int64 `json:"-"` // on the time line of now
}

func (r *row) termOf(d int64) term { return term{Length: r.grain + d, Ends: r.now + r.grain + d} }

// record is what the last Release or Begin has left beside a key, see laws 11
// and 12 of package locker. The record lies in the row of its key, so that both
// change in one step. The table keeps it as JSON.
type record struct {
	Owner string `json:"o"`           // of the claim that left it; "" is none
	Mark  bool   `json:"m,omitempty"` // it counts while its owner does not own the key
	term
	Size  int64  `json:"n"`
	Value []byte `json:"v,omitempty"` // if it was read, or its head

	dirty   bool  // Value must be written
	oldSize int64 // bytes of the value that the store has
}

// long reports whether a record of that size stands in a row of its own.
func (r *row) long(size int64) bool { return size > inlineMax && !r.single }

// found returns the result that brings a record.
func (r *row) found(l *record, ok bool) result {
	res := result{ok: ok, record: l.Value}
	if r.long(l.Size) {
		res.record, res.long = []byte{}, l.Owner
	}
	return res
}

// waiter is a claim in the queue. The table keeps it as JSON.
type waiter struct {
	Owner   string          `json:"o"`
	Inst    string          `json:"i,omitempty"`
	Place   int64           `json:"p"`
	Since   int64           `json:"s,omitempty"` // stamp of the write that has seen it last
	Seen    int64           `json:"-"`
	Offer   int64           `json:"f"` // length, in µs
	Limit   int             `json:"l,omitempty"`
	Fencing bool            `json:"x,omitempty"`
	Recall  bool            `json:"y,omitempty"`
	Holder  json.RawMessage `json:"h"`
	Told    string          `json:"t,omitempty"` // of a ticket: the owner's instance, as that of w knew it

	beside bool // has a ticket, named by Owner
}

// share is an owner of a key. The table keeps it as JSON.
type share struct {
	Owner string `json:"o"`
	Inst  string `json:"i,omitempty"`
	Limit int    `json:"l"` // 1: it is alone
	term
	Lingers bool            `json:"y,omitempty"` // it may keep the key while it does not use it
	Token   int64           `json:"t,omitempty"` // first of the block that it was granted
	Holder  json.RawMessage `json:"h"`

	fresh  bool // by the write that was read
	beside bool // has a ticket of its own
}

// keepsOut is for how long after its last look a claim keeps those
// behind it from a crowd (law 10).
const keepsOut = 2 * locker.LookEvery

// verb is what a call does.
type verb int

const (
	acquire verb = iota
	release
	fence
	revoke // a release that does nothing unless owner owns the key
	renew
	keep // a release that leaves a record
	begin
	forget
)

// request is a call, without what belongs to Go.
type request struct {
	verb       verb
	key, owner string
	inst       string
	ttl, offer int64 // µs; of the lease, or of the record; offer is that of next in a release
	limit      int
	fencing    bool
	holder     []byte
	try        locker.Try // of an acquire
	next       string     // owner id of the claim that a release queues, or ""
	recall     bool       // of the claim that acquires
	lingers    bool       // the same
	value      []byte     // of the record
	unmark     bool       // the release deletes the mark of owner
	lapsed     bool       // owner knows that its lease has ended
}

// result is the answer to a request.
type result struct {
	ok      bool   // acquired, released, fenced, kept, marked or forgotten
	record  []byte // found in place of the key
	long    string // owner of that record, if its value stands in a row of its own
	token   int64
	holder  []byte // of another owner, with the time that its lease has left
	remains int64
	lingers bool // that owner does
	queued  bool
	place   int64
	waiting int // claims behind the owner
	handed  bool
	now     int64 // when it was answered, by the store's clock if it has one
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
		Queued: r.queued, Place: locker.Place(r.place), Lingers: r.lingers,
	}
}

// alone returns the owner of the key that must be alone, or nil.
func (r *row) alone() *share {
	if len(r.owners) == 1 && r.owners[0].Limit == 1 {
		return &r.owners[0]
	}
	return nil
}

// loose reports whether a write of r makes nobody an owner and keeps nothing,
// and an operator has not asked for it.
func (r *row) loose() bool {
	fresh := slices.ContainsFunc(r.owners, func(s share) bool { return s.Since == 0 })
	return !fresh && !r.record.dirty && len(r.revoked) == 0 && r.grants == 0
}

// free reports whether nobody owns the key.
func (r *row) free() bool { return len(r.owners) == 0 }

// remains returns how long the last lease of a row that is not free lasts at
// least: never more than its TTL, to which own adds a grain of the clock. It is
// 0 of a key that is held for good.
func (r *row) remains() int64 {
	ends := r.now
	for _, s := range r.owners {
		ends = max(ends, s.Ends)
	}
	if ends == forever {
		return 0
	}
	return max(ends-r.now-r.grain, 1)
}

// owned reports whether owner owns the key.
func (r *row) owned(owner string) bool { return r.share(owner) != nil }

// alive reports whether w may still be granted the key.
func (r *row) alive(w waiter) bool {
	if r.dead != nil {
		return !r.dead(w.Inst)
	}
	return w.Seen > r.now-locker.QueueLife.Microseconds()
}

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

// own makes the claim of s an owner for d µs. own returns the first of its
// tokens, if fencing.
func (r *row) own(s share, d int64, fencing bool) (token int64) {
	if fencing {
		s.Token = r.block()
	}
	s.Limit, s.term, r.dirty = max(s.Limit, 1), r.termOf(d), true
	if own := r.share(s.Owner); own != nil {
		*own = s
	} else {
		r.owners = append(r.owners, s)
	}
	return s.Token
}

// block reserves a block of tokens, and returns the first. The clock is ahead
// of all tokens of a row that was deleted, unless it was set back.
//
// A token that is made of the version of the write is told by its number among
// the blocks of that write, below 0.
func (r *row) block() int64 {
	r.dirty = true
	if r.blocks {
		r.grants++
		r.token = -r.grants
		return r.token
	}
	r.token = max(r.token+locker.FenceBlock, r.now)
	return r.token
}

// tokenOf returns a token that was made of a version.
func tokenOf(version, token int64) int64 {
	if token >= 0 {
		return token
	}
	return (version*grantsMax - token) * locker.FenceBlock
}

// grantsMax is more than the blocks of one write.
const grantsMax = 1024

// back returns a place behind all claims.
func (r *row) back() int64 {
	if n := len(r.queue); n > 0 {
		return max(r.seq, r.queue[n-1].Place+1)
	}
	return max(r.seq, 1)
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
		r.revoked, r.revokes = append(r.revoked, r.share(q.owner).Inst), true
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
		return r.found(found, false)
	}
	own := r.alone()
	if own == nil && !r.free() { // a share may have ended, and left room for those who wait
		r.serve()
	}
	if r.owned(q.owner) || r.room(q.limit) && (r.free() || !r.behind(q)) { // law 7: a free key is anybody's
		r.leaves(q.owner)
		s := share{Owner: q.owner, Inst: q.inst, Limit: q.limit, Lingers: q.lingers, Holder: q.holder}
		return result{ok: true, token: r.own(s, q.ttl, q.fencing), waiting: r.waiting()}
	}
	res := result{remains: r.remains()}
	if own != nil {
		res.holder, res.lingers = own.Holder, own.Lingers
	}
	at, unheard := slices.IndexFunc(r.queue, func(w waiter) bool { return w.Owner == q.owner }), r.unheard()
	switch {
	case at >= 0 && r.alive(r.queue[at]):
		w := &r.queue[at]
		if r.dead == nil && w.Seen <= r.now-touch.Microseconds() {
			w.Seen, w.Since, w.beside, r.dirty = r.now, 0, false, true
		}
		res.queued, res.place = true, w.Place
		if res.lingers || unheard { // law 4: the message may have been lost
			r.joined, r.dirty = true, true
		}
	case own != nil && own.Owner == stranger:
	case q.try.Wait && !q.try.Queued: // law 2: an owner id is queued once
		res.queued, res.place = true, r.enqueue(q)
	}
	return res
}

// unheard reports whether an owner that is alone may not know that anybody
// waits. Then no claim stands in the row itself. The row was written after a
// ticket, or the process of the ticket has told another instance.
func (r *row) unheard() bool {
	own, missed := r.alone(), false
	for _, w := range r.queue {
		if own == nil || !w.beside && r.alive(w) {
			return false
		}
		missed = missed || w.beside && (w.Since < r.wrote || w.Told != own.Inst)
	}
	return missed
}

// enqueue puts the claim of q into the queue, behind those with its place, and
// drops claims that were not seen for too long.
func (r *row) enqueue(q *request) (place int64) {
	place = int64(q.try.Place)
	if place == 0 {
		place = r.back()
	}
	r.leaves(q.owner)
	r.insert(q.waiter(place, r.now))
	r.dirty, r.joined = true, true
	return place
}

// insert puts w into its place in the queue, behind those with the same.
func (r *row) insert(w waiter) {
	at, _ := slices.BinarySearchFunc(r.queue, w.Place+1, func(w waiter, p int64) int { return cmp.Compare(w.Place, p) })
	r.queue = slices.Insert(r.queue, at, w)
}

// waiter returns the claim of an acquire, at that place and seen at that time.
func (q *request) waiter(place, seen int64) waiter {
	return waiter{
		Owner: q.owner, Inst: q.inst, Place: place, Seen: seen, Offer: q.offer, Limit: q.limit, Fencing: q.fencing,
		Recall: q.recall, Holder: q.holder,
	}
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
	if res.handed && q.next != "" { // law 7: behind all
		res.queued, res.place = true, back
		w := q.waiter(back, r.now)
		w.Owner = q.next
		r.queue, r.dirty = append(r.queue, w), true
	}
	r.serve()
	return res
}

// disown ends the hold of owner, which may be over here and not for others.
func (r *row) disown(owner string) {
	n, is := len(r.owners)+len(r.settled), func(s share) bool { return s.Owner == owner }
	r.owners = slices.DeleteFunc(r.owners, is)
	r.settled = slices.DeleteFunc(r.settled, is)
	r.dirty = r.dirty || len(r.owners)+len(r.settled) < n
}

// heirsMax bounds the claims that get the key by one write, because stores
// bound a request. Others come in by their next look.
const heirsMax = 64

// serve gives the key to those who wait, from the front, as long as each may
// own it beside its owners.
func (r *row) serve() {
	for r.leaves(""); len(r.queue) > 0 && len(r.heirs) < heirsMax && r.room(r.queue[0].Limit); {
		first := r.queue[0]
		r.queue = slices.Delete(r.queue, 0, 1)
		r.heirs = append(r.heirs, first)
		s := share{Owner: first.Owner, Inst: first.Inst, Limit: first.Limit, Holder: first.Holder}
		r.own(s, first.Offer, first.Fencing)
	}
}

// lapse ends the lease of owner, which knows that its time is over.
func (r *row) lapse(owner string) {
	if own := r.share(owner); own != nil {
		own.Ends = min(own.Ends, r.now)
	}
}

// settle drops the shares that have ended (law 9).
func (r *row) settle() {
	r.owners = slices.DeleteFunc(r.owners, func(s share) bool {
		if s.Ends <= r.now {
			r.settled = append(r.settled, s)
		}
		return s.Ends <= r.now
	})
}

// share returns the share of owner, or nil.
func (r *row) share(owner string) *share {
	if i := slices.IndexFunc(r.owners, func(s share) bool { return s.Owner == owner }); i >= 0 {
		return &r.owners[i]
	}
	return nil
}

// room reports whether a claim of that limit may own the key beside its owners
// (law 9).
func (r *row) room(limit int) bool {
	n := len(r.owners)
	return n < max(limit, 1) && !slices.ContainsFunc(r.owners, func(s share) bool { return n >= s.Limit })
}

// behind reports whether the claim of q has to stay behind a claim in the queue
// (law 10). Those in front of it that may own the key were served before.
func (r *row) behind(q *request) bool {
	for _, w := range r.queue {
		switch {
		case w.Owner == q.owner, q.try.Place != 0 && int64(q.try.Place) < w.Place:
			return false
		case r.dead != nil && r.alive(w):
			r.doubts = append(r.doubts, w.Inst)
			return true
		case r.dead == nil && w.Seen > r.now-keepsOut.Microseconds():
			return true
		}
	}
	return false
}

// renew gives an owner its full TTL again.
func (r *row) renew(q *request) result {
	own := r.share(q.owner)
	if own == nil {
		return result{}
	}
	own.term, own.Lingers, own.beside, r.dirty = r.termOf(q.ttl), false, false, true // the claim is in use
	return result{ok: true, waiting: r.waiting()}
}

// describe fills in who owns the key, which is held.
func (r *row) describe(s *locker.KeyState) {
	s.Held, s.Remaining = true, time.Duration(r.remains())*time.Microsecond
	if own := r.alone(); own != nil {
		s.Owner, s.Holder, s.Lingers = own.Owner, lockerkit.HolderOf(own.Holder), own.Lingers
		return
	}
	s.Limit = locker.NoLimit
	for i, own := range r.owners {
		s.Limit = min(s.Limit, own.Limit)
		if i < locker.MaxListed {
			s.Owners = append(s.Owners, locker.Waiter{Owner: own.Owner, Holder: lockerkit.HolderOf(own.Holder)})
		}
	}
}

// left returns the record, or nil if there is none or it has ended.
func (r *row) left() *record {
	if r.record.Owner == "" || r.record.Ends <= r.now {
		return nil
	}
	return &r.record
}

// counting returns the record if it counts (law 12).
func (r *row) counting() *record {
	if left := r.left(); left != nil && (!left.Mark || !r.owned(left.Owner)) {
		return left
	}
	return nil
}

// leave makes the value of q the record.
func (r *row) leave(q *request, mark bool) {
	r.record = record{
		Owner: q.owner, Mark: mark, term: r.termOf(q.ttl),
		Size: int64(len(q.value)), Value: q.value, dirty: true, oldSize: r.record.oldSize,
	}
	r.dirty = true
}

// unleave deletes the record.
func (r *row) unleave() {
	r.record, r.dirty = record{Value: []byte{}, dirty: true, oldSize: r.record.oldSize}, true
}

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
		again := left != nil && left.Owner == q.owner && !left.Mark
		res := r.release(q)
		res.ok = again // by an earlier try, which has done all
		return res
	}
	r.leave(q, false)
	r.queue = slices.DeleteFunc(r.queue, func(w waiter) bool {
		if w.Recall {
			r.finds = append(r.finds, w)
		}
		return w.Recall
	})
	return r.release(q)
}

// begin leaves a mark, or finds the record of another claim.
func (r *row) begin(q *request) result {
	if !r.owned(q.owner) {
		return result{}
	}
	if left := r.left(); left != nil && left.Owner != q.owner {
		return r.found(left, true)
	}
	r.leave(q, true)
	return result{ok: true}
}

// unmark deletes the mark of a claim under which nothing was done.
func (r *row) unmark(owner string) {
	if r.record.Mark && r.record.Owner == owner {
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
		return result{ok: true, record: []byte(found.Owner)}
	case found.Owner != owner:
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
	left := time.Duration(max(found.Ends-r.now-r.grain, 1)) * time.Microsecond
	head := found.Value[:min(len(found.Value), locker.RecordHead)]
	return locker.RecordState{Size: int(found.Size), Remaining: left, Head: string(head)}
}

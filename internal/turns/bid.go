package turns

import (
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// A bid is what a gate contends with for the key: a claim, and its standing in
// the store. It belongs to the gate and not to one caller. When a caller
// leaves, the next in line goes on with the bid in the same place. Once the bid
// has won, it belongs to the grant.
//
// claim and terms never change. The gate's mutex guards the rest until the bid
// has won.
type bid struct {
	claim locker.Claim
	terms terms

	queued bool // it may be in the store's queue, or was granted there
	// seen is when the last answered request that saw the bid in the queue was
	// sent. No offer is older (law 1).
	seen    time.Time
	joins   uint32 // how many calls had joined the gate when that request was sent
	unclear bool   // a request of it may still be under way
}

// terms are what a grant was acquired with. A turn on it is open to calls that
// ask for no more.
type terms struct {
	ttl       time.Duration
	noRenewal bool
	fencing   bool
	limit     int // see [Settings]
	// recall says that there was no record when the claim became the owner. So
	// there is none while it is the owner (laws 16 and 17).
	recall bool
}

func (s *Settings) terms() terms {
	return terms{ttl: s.TTL, noRenewal: s.NoRenewal, fencing: s.Fencing, limit: s.Limit}
}

// serve reports whether a grant on terms t serves a call that asks for u.
func (t terms) serve(u terms) bool {
	same := t.ttl == u.ttl && t.noRenewal == u.noRenewal && t.limit == u.limit
	return same && (t.fencing || !u.fencing) && (t.recall || !u.recall)
}

// newBid makes a bid under an owner id that was never used before (law 2). It
// names the trace of t's call.
func (t *Turn) newBid(now time.Time) *bid {
	s := t.set
	return &bid{terms: t.terms(), claim: locker.Claim{
		Key: t.gate.name, Owner: lockerkit.NewID(), TTL: s.TTL, Fencing: s.Fencing, Limit: s.Limit,
		Recall: t.recalls(),
		Holder: locker.Holder{
			Host: hostname(), PID: pid, Since: now, Name: s.Name,
			Traceparent: t.events.Traceparent(t.ctx),
		},
	}}
}

// abandon asks the locker to remove all that b has left in the store. b may be
// nil.
func (b *bid) abandon(l locker.Locker) {
	if b != nil && (b.queued || b.unclear) {
		l.Abandon(&b.claim, b.unclear)
	}
}

package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Renew renews all leases on all nodes, in one round trip to each. A lease is
// renewed when it has a quorum of the nodes that held it without a gap.
//
// A node where the lease is missing is asked in the background to take it. That
// node counts from the next renewal on, beside a quorum that has not lost the
// lease. So a lease that has lost its quorum is never put together again.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.life.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.life.Leave()
	if len(cs) == 0 {
		return
	}
	r := newRenewals(l, cs, answered)
	ttl := cs[0].TTL
	for _, c := range cs {
		ttl = min(ttl, c.TTL)
	}
	for i, n := range l.nodes {
		claims, at := r.of(i)
		if len(claims) == 0 {
			continue
		}
		l.life.Go(func() { // ends with the node's limit
			limited, cancel := l.within(ctx, ttl)
			defer cancel()
			var last error
			n.store.Renew(limited, claims, func(k int, err error) {
				last = err
				r.count(at[k], i, err)
			})
			n.end(last)
		})
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		r.giveUp(context.Cause(ctx))
		<-r.done // until the answers under way have been told
	}
}

// renewals are the answers of one Renew.
type renewals struct {
	locker   *Locker
	answered func(i int, err error)
	sent     time.Time
	done     chan struct{} // closed when every claim has its answer

	mu   sync.Mutex // guards the fields below; never held across a callback
	all  []renewal
	left int // claims without an answer
}

// renewal is the part of one claim.
type renewal struct {
	ballot  *ballot
	asked   []bool // nodes that have not lost the lease
	firm    []bool // asked nodes that had the lease when a quorum last had it
	renewed int
	pending int // firm nodes that have not answered
	kept    int // firm nodes that have the lease, or did not answer in time
	lost    int // nodes that do not have the lease
	unknown []error
	told    bool
}

func newRenewals(l *Locker, cs []*locker.Claim, answered func(int, error)) *renewals {
	r := &renewals{
		locker: l, answered: answered, sent: time.Now(), done: make(chan struct{}),
		all: make([]renewal, len(cs)), left: len(cs),
	}
	for i, c := range cs {
		b := l.ballot(c, false)
		r.all[i] = renewal{ballot: b}
		r.all[i].asked, r.all[i].firm, r.all[i].pending = b.seatsHeld()
		for _, asked := range r.all[i].asked {
			if !asked {
				r.all[i].lost++
			}
		}
	}
	for i := range r.all {
		if d := &r.all[i]; d.lost > len(l.nodes)-l.quorum || d.pending < l.quorum {
			r.tell(i, errNotOwner)
		}
	}
	return r
}

// of returns the claims to renew on node i, and their indices in the Renew.
func (r *renewals) of(i int) (claims []*locker.Claim, at []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.all {
		if d := &r.all[k]; d.asked[i] && !d.told {
			claims, at = append(claims, &d.ballot.seats[i].claim), append(at, k)
		}
	}
	return claims, at
}

// count records the answer of a node about claim k. It answers for the claim as
// soon as the result is certain. The claim is renewed if two quorums agree. One
// quorum has the lease now. The other had it at the last time that a quorum had
// it, and has not lost it since. Nodes that were taken later do not count for
// the second. One may be taken during this renewal, because the answer to an
// earlier one came late.
func (r *renewals) count(k, node int, err error) {
	r.mu.Lock()
	d := &r.all[k]
	quorum, mayFail := r.locker.quorum, len(r.locker.nodes)-r.locker.quorum
	lost := errors.Is(err, locker.ErrLeaseLost)
	switch {
	case err == nil:
		d.renewed++
	case lost:
		d.lost++
		d.asked[node] = false
		d.ballot.miss(node)
	default:
		d.unknown = append(d.unknown, r.locker.nodes[node].of(err))
	}
	if d.firm[node] {
		d.pending--
		if !lost && !d.ballot.lapsed(node) {
			d.kept++
		}
	}
	decided, answer := false, error(nil)
	switch {
	case d.told:
	case d.lost > mayFail || d.kept+d.pending < quorum:
		decided, answer = true, errNotOwner
	case d.renewed >= quorum && d.kept >= quorum:
		decided = true
	case d.renewed+d.lost+len(d.unknown) == len(r.locker.nodes):
		decided, answer = true, r.locker.noQuorum(d.renewed+d.lost, 0, d.unknown)
	}
	late := lost && d.told
	r.mu.Unlock()
	switch {
	case decided:
		r.tell(k, answer)
	case late:
		r.locker.pickUp(d.ballot)
	}
}

// tell answers for claim k, once only.
func (r *renewals) tell(k int, err error) {
	r.mu.Lock()
	d := &r.all[k]
	first := !d.told
	d.told = true
	if first && err == nil {
		d.ballot.settled(d.asked)
	}
	r.mu.Unlock()
	if !first {
		return
	}
	l := r.locker
	switch {
	case err == nil:
		l.known.hold(d.ballot, r.sent.Add(d.ballot.claim.TTL))
		if d.ballot.is(over) { // given up meanwhile
			l.known.drop(d.ballot)
		}
		l.pickUp(d.ballot)
	case errors.Is(err, locker.ErrLeaseLost):
		d.ballot.turn(idle) // no missing node is taken any more
		l.known.drop(d.ballot)
	}
	r.answered(k, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left--; r.left == 0 {
		close(r.done)
	}
}

// giveUp answers for the claims that are undecided.
func (r *renewals) giveUp(cause error) {
	for k := range r.all {
		r.tell(k, unclear(cause))
	}
}

// seatsHeld begins a renewal. It returns on which nodes the key is ours. firm
// tells on which of these it was ours when a quorum last had it, and n is their
// number.
func (b *ballot) seatsHeld() (held, firm []bool, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	held, firm = make([]bool, len(b.seats)), make([]bool, len(b.seats))
	for i := range b.seats {
		s := &b.seats[i]
		s.lapsed = false
		if held[i], firm[i] = s.ours, s.ours && s.firm; firm[i] {
			n++
		}
	}
	return held, firm, n
}

// settled records that a quorum had the key when the asked nodes were asked. A
// node that has lapsed since may have been taken again later than that.
func (b *ballot) settled(asked []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.seats {
		s := &b.seats[i]
		s.firm = s.firm || asked[i] && s.ours && !s.lapsed
	}
}

// miss records that the key is not ours on a node any more.
func (b *ballot) miss(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.ours, s.firm, s.lapsed = false, false, true
	b.missed, b.settle = 0, time.Time{}
}

// lapsed reports whether node i has forgotten the claim since the last renewal
// began.
func (b *ballot) lapsed(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seats[i].lapsed
}

package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// ballot is a claim on all nodes. It is kept in the claim's State.
type ballot struct {
	locker *Locker // the Locker that made it
	claim  locker.Claim
	self   voter // the claim as others see it

	mu    sync.Mutex // guards the fields up to timer; never held across I/O
	phase phase
	seats []seat
	// missed is how often the missing nodes were asked in vain since the grant.
	// It is reset when a renewal finds a node missing.
	missed int
	// A late vote that comes before settle counts as one of the grant's. The
	// first node that has forgotten the claim ends that.
	settle time.Time

	due   time.Time   // when the locker attends to the ballot; zero if it does not
	timer *time.Timer // for due; nil before the first
	// The registry's mutex guards until and told. until is how long the ballot
	// is known here. told says that its holder was told that others wait.
	until time.Time
	told  bool
}

// phase says what happens to a vote that comes late.
type phase uint8

const (
	seeking phase = iota // it counts
	idle                 // it is given back
	holding              // it is one more than needed
	over                 // it is given back, twice
)

// seat is a claim on one node.
type seat struct {
	// claim is the node's own copy. Only the request that has the seat touches
	// its State.
	claim   locker.Claim
	busy    bool // a request that touches State has the seat
	ours    bool // in its last answer the node said that the claim owns the key
	firm    bool // ours was true when a quorum last had it, at the grant or in a renewal
	lapsed  bool // since the last renewal began, the node has said that it has no lease to renew
	queued  bool // the claim may be in the node's queue
	granted bool // a message says that the node granted the key, and no request has looked since
	unclear bool // a request had no answer, and may yet arrive
	dead    bool // a vote there could end at any time: giving it back had no answer, or the node does that itself
	heir    bool // the claim's Release waits for the seat or has it, and cleans up

	freed chan struct{} // closed when the seat is free; nil if nobody waits for that
}

// voter identifies the holder of a key, as far as the nodes tell. Two nodes
// that name the same voter agree.
type voter struct {
	since    int64
	instance string
}

func voterOf(h locker.Holder) voter { return voter{h.Since.UnixNano(), h.Instance} }

// before reports whether v goes before w if votes are split evenly. The claim
// that began to contend first does.
func (v voter) before(w voter) bool {
	return v.since < w.since || v.since == w.since && v.instance < w.instance
}

// ballot returns the ballot in c. With fresh it begins a new one if that is
// over.
func (l *Locker) ballot(c *locker.Claim, fresh bool) *ballot {
	b, ok := c.State.(*ballot)
	if ok && b.locker == l && (!fresh || !b.is(over)) {
		return b
	}
	c.Holder.Instance = l.instance
	b = &ballot{locker: l, claim: *c, self: voterOf(c.Holder), seats: make([]seat, len(l.nodes))}
	b.claim.State = nil
	for i := range b.seats {
		b.seats[i].claim = b.claim
	}
	c.State = b
	return b
}

func (b *ballot) is(p phase) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phase == p
}

// turn moves the ballot on to p unless it is over.
func (b *ballot) turn(p phase) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase != over {
		b.phase = p
	}
}

// won makes the claim the owner. The votes that are there count, and so do
// votes that come until settle.
func (b *ballot) won(settle time.Time) {
	b.turn(holding)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle = settle
	for i := range b.seats {
		b.seats[i].firm = b.seats[i].ours
	}
}

var (
	errBusy = fmt.Errorf("%w: an earlier request has no answer yet", locker.ErrUnavailable)
	errDead = fmt.Errorf("%w: a vote there was given back, and that has no answer", locker.ErrUnavailable)
	errOver = fmt.Errorf("%w: the claim is over", locker.ErrUnavailable)
)

// take takes a seat for a request as soon as no other request has it. The
// request ends with cast, returned or leave. granted says that a message has
// told that the key is ours there.
//
// Once the ballot is over, only its last request may have a seat. A late
// request would vote for a claim that is gone, while another request cleans up.
func (b *ballot) take(ctx context.Context, i int, last bool) (granted bool, err error) {
	for {
		granted, freed, err := b.tryTake(i, last)
		if freed == nil {
			return granted, err
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false, errBusy
		}
	}
}

// tryTake is take without waiting. If the seat is not free, it returns a
// channel that is closed when it is.
func (b *ballot) tryTake(i int, last bool) (granted bool, freed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	switch {
	case b.phase == over && !last:
		return false, nil, errOver
	case s.dead:
		return false, nil, errDead
	case s.busy:
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		return false, s.freed, nil
	}
	s.busy, granted = true, s.granted
	if last {
		s.granted = false // a later message may concern what follows the Release
	}
	return granted, nil, nil
}

// free ends the use of the seat and tells the requests that wait for it. The
// ballot's mutex is held.
func (s *seat) free() {
	s.busy = false
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// leave gives a seat back without an answer to an Acquire. clean reports
// whether the seat must be cleaned up. It must if the claim is over, and either
// a request may yet arrive or nobody else cleans up.
func (b *ballot) leave(i int) (clean bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.free()
	return b.phase == over && (s.unclear || !s.heir)
}

// finish ends the Release of a seat. clean reports whether there is more to
// clean up. There is if a request of the claim may yet arrive, or if the claim
// may be in the queue. There also is if a message says that the node has handed
// the key to the claim meanwhile.
func (b *ballot) finish(i int) (clean bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.free()
	s.heir = false
	return s.unclear || s.queued || s.granted
}

// disclaim records that Release gave up waiting for the seat. clean reports
// that nobody else will clean it up, because the request that had the seat left
// that to the Release.
func (b *ballot) disclaim(i int) (clean bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.heir = false
	return !s.busy
}

// cast records the node's answer to an Acquire. It returns what the caller must
// do. In phase idle, the caller must give the vote back and keeps the seat. In
// phase over, it must clean up everything.
func (b *ballot) cast(i int, waits bool, a locker.Answer, err error) phase {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.granted = false
	if err != nil {
		unclear := errors.Is(err, locker.ErrUnavailable)
		s.unclear, s.dead = s.unclear || unclear, s.dead || a.Queued && !unclear
		s.queued = s.queued || waits && s.unclear
	} else {
		s.ours, s.queued = a.Acquired, a.Queued
		s.firm = s.ours && (s.firm || b.phase == holding && time.Now().Before(b.settle))
	}
	if b.phase == idle && s.ours {
		return idle
	}
	s.free()
	if b.phase == over && !s.heir {
		return over
	}
	return holding
}

// doubt records that an Acquire of a seat had no answer, and is sent again.
func (b *ballot) doubt(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seats[i].unclear = true
}

// returned records the end of a request to give a vote back. known says that
// the vote is known to be gone. clean reports whether the seat must be cleaned
// up.
func (b *ballot) returned(i int, known bool) (clean bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.free()
	s.ours, s.dead = false, !known
	return !known || b.phase == over && !s.heir
}

// retire makes the ballot idle. It takes the seats whose votes must be given
// back.
func (b *ballot) retire() (back []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase != over {
		b.phase = idle
	}
	for i := range b.seats {
		if s := &b.seats[i]; s.ours && !s.busy && !s.dead {
			s.busy = true
			back = append(back, i)
		}
	}
	return back
}

// missing takes the free seats that are not ours. It takes none unless a quorum
// is ours.
func (b *ballot) missing(quorum int) (at []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase != holding || b.held() < quorum {
		return nil
	}
	for i := range b.seats {
		if s := &b.seats[i]; !s.ours && !s.busy && !s.dead {
			s.busy = true
			at = append(at, i)
		}
	}
	b.missed++
	return at
}

// held is the number of nodes where the key is ours. b.mu is held.
func (b *ballot) held() (n int) {
	for i := range b.seats {
		if b.seats[i].ours {
			n++
		}
	}
	return n
}

// waits reports whether the claim may be in the queue of a node. It also does
// so if a node has handed the key to the claim from its queue.
func (b *ballot) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.seats {
		if s := &b.seats[i]; s.queued || s.granted || s.ours {
			return true
		}
	}
	return false
}

// grant records a message from node i. It returns how many nodes have sent one
// since the last look. known is false for a ballot that is over, unless a
// Release has yet to end the hold there. An unknown grant is given back, and
// that Release would then find it lost.
func (b *ballot) grant(i int) (n int, p phase, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	if b.phase == over && !s.heir {
		return 0, over, false
	}
	s.granted, s.queued = true, false
	for i := range b.seats {
		if b.seats[i].granted {
			n++
		}
	}
	return n, b.phase, true
}

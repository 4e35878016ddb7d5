package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// ballot is a claim on all nodes, kept in its State.
type ballot struct {
	locker *Locker // whose it is
	claim  locker.Claim
	self   voter // the claim as others see it

	mu    sync.Mutex // guards what follows; never held across I/O
	phase phase
	seats []seat
	// how often the nodes that are missing were asked in vain since the grant,
	// or a renewal found one missing
	missed int
	settle time.Time // until when a vote that comes late is one of the grant's

	due   time.Time // when the agenda attends to it, zero if it does not; guarded by the agenda's mutex
	place int       // in the agenda; guarded by its mutex
	until time.Time // how long it is known here; guarded by the registry's mutex
	told  bool      // its holder was told that others wait; guarded by the registry's mutex
}

// phase is what becomes of a vote that comes late.
type phase uint8

const (
	seeking phase = iota // it counts
	idle                 // it is given back
	holding              // it is one more than needed
	over                 // it is given back, twice
)

// seat is a claim on one node.
type seat struct {
	claim   locker.Claim // the node's own copy; its State is touched only by who has the seat
	busy    bool         // somebody has the seat: a request that touches State is under way
	ours    bool         // the node's last word is that the key is the claim's
	firm    bool         // and was when a quorum had it, at the grant or in a renewal since
	queued  bool         // the claim may be in the node's queue
	granted bool         // a message says that the node has handed the key to the claim, and nobody has looked since
	unclear bool         // a request had no answer, and may yet come
	dead    bool         // it was given back and that had no answer: a vote there could end at any time
	heir    bool         // the claim's Release waits for the seat or has it, and cleans up

	freed chan struct{} // closed when the seat is free; nil if nobody waits for that
}

// voter is who holds a key, as far as the nodes tell: two nodes that name the
// same one agree.
type voter struct {
	since    int64
	instance string
}

func voterOf(h locker.Holder) voter { return voter{h.Since.UnixNano(), h.Instance} }

// before says who goes first where votes are split evenly: who began to contend
// first.
func (v voter) before(w voter) bool {
	return v.since < w.since || v.since == w.since && v.instance < w.instance
}

// ballot returns what is kept in c, or with fresh begins anew if that is over.
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

// turn moves the ballot on to p, unless it is over.
func (b *ballot) turn(p phase) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase != over {
		b.phase = p
	}
}

// won makes the claim the owner, by the votes that are there and those that
// come until settle.
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

// take takes a seat for a request, which ends with cast, returned or leave, as
// soon as no other request has it. It says whether a message has told that the
// key is ours there. Once the ballot is over only its last request may have a
// seat: one that comes late would vote for nobody, beside whoever cleans up.
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

// tryTake is take that returns what tells that a seat is free which is not.
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
		s.granted = false // what comes from now on may be behind the Release
	}
	return granted, nil, nil
}

// free tells who waits for the seat; the ballot's mutex is held.
func (s *seat) free() {
	s.busy = false
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// leave gives a seat back without an answer to an Acquire, and says whether it
// must be cleaned up: the claim is over, and a request of it may yet come, or
// nobody else cleans up.
func (b *ballot) leave(i int) (clean bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.free()
	return b.phase == over && (s.unclear || !s.heir)
}

// finish ends the Release of a seat, and says whether there is more to clean
// up: a request of the claim may yet come, it may be in the queue, or a message
// says that the node has handed it the key meanwhile.
func (b *ballot) finish(i int) (clean bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.free()
	s.heir = false
	return s.unclear || s.queued || s.granted
}

// disclaim says that the Release could not have the seat; clean says that it
// must be cleaned up all the same, for whoever had it has left that to the
// Release.
func (b *ballot) disclaim(i int) (clean bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.heir = false
	return !s.busy
}

// cast notes the node's answer to an Acquire and says what is to be done with
// it: in phase idle the vote is to be given back, and the seat stays taken; in
// phase over all is to be.
func (b *ballot) cast(i int, waits bool, a locker.Answer, err error) phase {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.granted = false
	if err != nil {
		s.unclear = s.unclear || errors.Is(err, locker.ErrUnavailable)
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

// returned notes whether a vote that was given back is known to be so, and says
// whether the seat must be cleaned up.
func (b *ballot) returned(i int, known bool) (clean bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seats[i]
	s.free()
	s.ours, s.dead = false, !known
	return !known || b.phase == over && !s.heir
}

// retire makes the ballot idle and takes the seats whose votes are to be given
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

// missing takes the free seats that are not ours while a quorum is; none
// otherwise.
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

// held is on how many nodes the key is ours; b.mu is held.
func (b *ballot) held() (n int) {
	for i := range b.seats {
		if b.seats[i].ours {
			n++
		}
	}
	return n
}

// waits reports whether the claim may be in the queue of a node, or was handed
// its key from there.
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

// grant notes a message from node i and returns how many nodes have sent one
// since the last look. It is not known to a ballot that is over, unless a
// Release is yet to end the hold there: were the key given back beside it, the
// Release would find it lost.
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

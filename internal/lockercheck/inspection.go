package lockercheck

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The answers of a locker that can be looked into. For other lockers these
// checks are skipped.
var inspection = []Check{
	{"who holds a key can be seen", "locker.Inspector", seesHolder},
	{"who waits for a key can be seen, in order", "locker.Inspector", seesWaiters},
	{"a list has every key that is held, and none that is not", "locker.Inspector", listsHeld},
	{"a forced release frees the key of its owner only", "locker.Inspector", forcesOwner},
	{"a forced release hands the key over", "locker.Inspector", forcesHandOver},
	{"a record can be seen, and how long it lasts", "locker.Inspector", seesRecord},
}

// errTooSlow starts a round over because something ended before the round could
// ask for it.
var errTooSlow = errors.New("a claim in the queue, or its offer, ended before it could be asked for")

// inspectors returns both lockers, or ends the check as skipped.
func (p *pair) inspectors() (a, b locker.Inspector) {
	needs(p.can.Inspects, "Inspects")
	return p.a.Locker, p.b.Locker
}

func (p *pair) inspect(in locker.Inspector, key string) locker.KeyState {
	s, err := in.Inspect(p.ctx, key)
	if err != nil || s.Key != key {
		fail("Inspect of %q: %+v, %v, want the state of that key", key, s, err)
	}
	return s
}

// shows inspects key until its state is as wanted, for as long as the lag may
// be.
func (p *pair) shows(in locker.Inspector, key string, wanted func(locker.KeyState) bool) (s locker.KeyState) {
	comesTrue(p.lag(), func() bool {
		s = p.inspect(in, key)
		return wanted(s)
	})
	return s
}

// ownedBy says that c owns its key alone.
func ownedBy(c *locker.Claim) func(locker.KeyState) bool {
	return func(s locker.KeyState) bool { return s.Owner == c.Owner }
}

func seesHolder(p *pair) {
	a, b := p.inspectors()
	if s := p.inspect(a, "k"); s.Held || s.Owner != "" || s.Waiting != 0 {
		fail("Inspect of a key that nobody has: %+v", s)
	}
	c := claim("k", long)
	p.acquire(p.a, c)
	for _, in := range []locker.Inspector{a, b} {
		s := p.shows(in, "k", ownedBy(c))
		if !s.Held || s.Owner != c.Owner || s.Waiting != 0 || len(s.Waiters) != 0 {
			fail("Inspect of a key that is held: %+v, want the owner %s and nobody who waits", s, c.Owner)
		}
		if s.Remaining > long || s.Remaining < long/2 {
			fail("KeyState.Remaining is %v of a TTL of %v", s.Remaining, long)
		}
		p.isSelf(s.Holder, p.a)
	}
	p.release(p.a, c, nil)
	if s := p.shows(b, "k", func(s locker.KeyState) bool { return !s.Held }); s.Held {
		fail("Inspect of a key that was released: %+v", s)
	}
}

func seesRecord(p *pair) {
	a, b := p.inspectors()
	p.recorder(p.a)
	if s := p.inspect(a, "k"); s.Record != (locker.RecordState{}) {
		fail("KeyState.Record of a key without a record is %+v", s.Record)
	}
	const value = "twelve bytes"
	p.records(p.a, "k", value)
	for _, in := range []locker.Inspector{a, b} {
		s := p.shows(in, "k", func(s locker.KeyState) bool { return s.Record.Size > 0 })
		if s.Record.Size != len(value) || s.Record.Remaining > long || s.Record.Remaining < long/2 {
			fail("KeyState.Record is %+v, want %d bytes for at most %v", s.Record, len(value), long)
		}
		if head := s.Record.Head; head != "" && head != value[:locker.RecordHead] {
			fail("KeyState.Record.Head is %q, want the first bytes of %q, or none", head, value)
		}
		if s.Held || s.Waiting != 0 {
			fail("Inspect of a key with a record alone: %+v, want a free key", s)
		}
	}
}

// isSelf checks that h is a claim of this suite on the side of s.
func (p *pair) isSelf(h locker.Holder, s *side) {
	mine := claim("%self", long)
	p.acquire(s, mine)
	if h.Instance == "" || h.Instance != mine.Holder.Instance {
		fail("Holder.Instance is %q, want %q", h.Instance, mine.Holder.Instance)
	}
	p.release(s, mine, nil)
	if d := h.Since.Sub(self.Since).Abs(); d > time.Millisecond {
		fail("Holder.Since is %v, want %v", h.Since, self.Since)
	}
	h.Since, h.Instance = self.Since, self.Instance
	if h != self {
		fail("Holder is %+v, want %+v", h, self)
	}
}

func seesWaiters(p *pair) {
	a, _ := p.inspectors()
	p.rounds(func(key string) error {
		c, first, second := claim(key, long), claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		if err := p.wait(p.b, first); err != nil {
			return err
		}
		if err := p.wait(p.a, second); err != nil {
			return err
		}
		s := p.shows(a, key, func(s locker.KeyState) bool { return s.Waiting == 2 })
		for i, c := range []*locker.Claim{first, second} {
			if _, err := p.look([]*side{p.b, p.a}[i], c, locker.Try{Queued: true}); err != nil {
				return errTooSlow
			}
		}
		if s.Waiting != 2 || len(s.Waiters) != 2 || s.Waiters[0].Owner != first.Owner ||
			s.Waiters[1].Owner != second.Owner {
			fail("Inspect with %s and then %s in the queue: %+v", first.Owner, second.Owner, s)
		}
		p.isSelf(s.Waiters[0].Holder, p.b)
		p.isSelf(s.Waiters[1].Holder, p.a)
		return nil
	})
}

func listsHeld(p *pair) {
	a, _ := p.inspectors()
	want := make(map[string]string)
	for i, key := range awkward() {
		c := fencedClaim(key, 3*long) // there are many
		p.acquire([]*side{p.a, p.b}[i%2], c)
		want[key] = c.Owner
	}
	gone := claim("gone", long)
	p.acquire(p.a, gone)
	p.release(p.a, gone, nil)
	var err error
	if !comesTrue(p.lag(), func() bool { err = p.lists(a, want); return err == nil }) {
		fail("%w", err)
	}
}

// lists checks that a list has these keys and their owners.
func (p *pair) lists(in locker.Inspector, want map[string]string) error {
	listed := make(map[string]bool)
	for s, err := range in.List(p.ctx) {
		if err != nil {
			fail("List: %v", err)
		}
		owner, ok := want[s.Key]
		if s.Held && (!ok || listed[s.Key]) {
			return fmt.Errorf("List has %+v, which nobody holds, or has it twice", s)
		}
		if ok && (!s.Held || s.Owner != owner) {
			return fmt.Errorf("List has %+v, want the owner %s", s, owner)
		}
		listed[s.Key] = true
	}
	for key := range want {
		if !listed[key] {
			return fmt.Errorf("List does not have %q, which is held", key)
		}
	}
	return nil
}

func forcesOwner(p *pair) {
	_, b := p.inspectors()
	c := claim("k", long)
	p.acquire(p.a, c)
	wantLost("ForceRelease by another owner", b.ForceRelease(p.ctx, "k", resembling(c).Owner))
	p.owns(p.a, c)
	for _, prefix := range []string{"", c.Owner[:1], c.Owner[:locker.OwnerLen-1], c.Owner + "A"} {
		if err := b.ForceRelease(p.ctx, "k", prefix); !errors.Is(err, locker.ErrInvalidOption) {
			fail("ForceRelease by %q: %v, want ErrInvalidOption", prefix, err)
		}
	}
	p.owns(p.a, c)
	if err := b.ForceRelease(p.ctx, "k", c.Owner); err != nil {
		fail("ForceRelease by the owner: %v", err)
	}
	wantLost("Renew after a forced release", p.renew(p.a, c))
	p.free("k")
	wantLost("a second ForceRelease", b.ForceRelease(p.ctx, "k", c.Owner))
}

func forcesHandOver(p *pair) {
	_, b := p.inspectors()
	p.rounds(func(key string) error {
		c, next, err := p.waited(key)
		if err != nil {
			return err
		}
		p.b.ear.wakened(key)
		sent := time.Now()
		if err := b.ForceRelease(p.ctx, key, c.Owner); err != nil {
			fail("ForceRelease by the owner: %v", err)
		}
		// The store may hand the key over or wake the waiter, as after a
		// release.
		if p.renew(p.b, next) == nil {
			return nil
		}
		if time.Since(sent) > next.LongOffer() {
			return errTooSlow
		}
		if !p.settled(p.b, next, locker.Try{Wait: true, Queued: true}, acquired).Acquired {
			fail("a key is not its first waiter's after a forced release")
		}
		return nil
	})
}

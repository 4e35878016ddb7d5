package lockercheck

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The answers of a locker whose keys several claims own at once. For other
// lockers these checks are skipped.
var sharing = []Check{
	{"shared claims own a key together, and nobody alone beside them", "law 9", sharesKey},
	{"a shared claim waits for who owns the key alone", "law 9", waitsForAlone},
	{"a release ends the share of its owner only", "law 9", endsOwnShare},
	{"each share ends by itself, whatever the others renew", "law 9", sharesEnd},
	{"a share that has ended is not put back", "law 1", endsForGood},
	{"a renewal shortens the share of nobody else", "law 9", shortensNobody},
	{"every owner of a key learns that another waits", "Waker.Wanted", tellsOwners},
}

// sharers ends the check as skipped if the store has no shares.
func (p *pair) sharers() { needs(p.can.Shares, "Shares") }

// permit makes a claim for one of n permits.
func permit(key string, n int, ttl time.Duration) *locker.Claim {
	c := claim(key, ttl)
	c.Limit = n
	return c
}

// shared makes a shared claim.
func shared(key string, ttl time.Duration) *locker.Claim { return permit(key, locker.NoLimit, ttl) }

// joins acquires c, which may own its key beside the owners. Nobody waits.
func (p *pair) joins(s *side, cs ...*locker.Claim) {
	for _, c := range cs {
		if !p.settled(s, c, locker.Try{}, acquired).Acquired {
			fail("Acquire of a claim with limit %d: refused, want it to own the key beside the others; %s",
				c.Limit, p.saw(c.Key))
		}
	}
}

// has checks that c owns its key.
func (p *pair) has(s *side, c *locker.Claim) {
	if err := p.renew(s, c); err != nil {
		fail("Renew by %s, with limit %d: %v, want success; %s", p.name(c), c.Limit, err, p.saw(c.Key))
	}
}

// hasNot checks that c does not own its key.
func (p *pair) hasNot(s *side, c *locker.Claim) {
	wantLost(fmt.Sprintf("Renew by %s, with limit %d, which may not own the key", p.name(c), c.Limit), p.renew(s, c))
}

// gets waits until c, which is in the queue, owns its key. It looks only if the
// store wakes.
func (p *pair) gets(s *side, c *locker.Claim) error {
	for start := time.Now(); ; pause() {
		if p.renew(s, c) == nil {
			return nil
		}
		if s.ear.timesWokenFor(c.Key) > 0 && p.try(s, c, locker.Try{Wait: true, Queued: true}).Acquired {
			return nil
		}
		if time.Since(start) > p.hearing {
			return fmt.Errorf("%s, with limit %d, did not get the key, which it may own; %s", p.name(c), c.Limit,
				p.saw(c.Key))
		}
	}
}

func sharesKey(p *pair) {
	p.sharers()
	a, b, c := shared("k", long), shared("k", long), shared("k", long)
	p.joins(p.a, a, b)
	p.joins(p.b, c)
	for _, s := range []*side{p.a, p.b} {
		if a := p.refused(s, claim("k", long)); a.Holder != (locker.Holder{}) {
			fail("Answer.Holder of a key with several owners: %+v, want none", a.Holder)
		}
	}
	p.has(p.a, a)
	p.has(p.a, b)
	p.has(p.b, c)
	p.release(p.a, a, nil)
	p.release(p.b, c, nil)
	p.refused(p.b, claim("k", long))
	p.release(p.a, b, nil)
	p.free("k")
}

func waitsForAlone(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		alone, next := claim(key, long), shared(key, long)
		p.acquire(p.a, alone)
		if a := p.refused(p.b, shared(key, long)); a.Holder.Instance == "" {
			fail("Answer.Holder of a key that one claim owns alone is zero")
		}
		if err := p.wait(p.b, next); err != nil {
			return err
		}
		p.hasNot(p.b, next)
		p.release(p.a, alone, nil)
		if err := p.gets(p.b, next); err != nil {
			return err
		}
		p.joins(p.a, shared(key, long))
		p.refused(p.a, claim(key, long))
		return nil
	})
}

func endsOwnShare(p *pair) {
	p.sharers()
	a, b := shared("k", long), shared("k", long)
	p.joins(p.a, a)
	p.joins(p.b, b)
	if r := p.release(p.a, a, nil); r.Waiting != 0 {
		fail("Release of a key with another owner: %+v, want nobody who waits", r)
	}
	p.hasNot(p.a, a)
	p.has(p.b, b)
	p.wantReleaseLost("a second Release of a share", p.a, a)
	p.a.giveUp(a, locker.End{}, false)
	p.closed(p.a)
	p.has(p.b, b)
	p.refused(p.b, claim("k", long))
}

// sharesEnd lets two shares end, one after the other.
func sharesEnd(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		ttl := p.hearing // longer in each round, for a store that is slow to renew
		dead, first, last := shared(key, ttl), shared(key, ttl), shared(key, ttl)
		p.joins(p.a, dead, first)
		p.joins(p.b, last)
		for start := time.Now(); time.Since(start) < 2*ttl; {
			if err := p.renewAll(p.b, []*locker.Claim{last})[0]; err != nil {
				return errTooSlow
			}
			pause()
		}
		p.hasNot(p.a, dead)
		p.hasNot(p.a, first)
		sent := time.Now()
		p.comes(p.b, claim(key, long), locker.Try{})
		if took := time.Since(sent); took > patience/2 {
			fail("a key was free %v after the last renewal of a share of %v", took, ttl)
		}
		return nil
	})
}

// endsForGood renews a share late, while the key has another owner.
func endsForGood(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		late, other, next := permit(key, 2, short), permit(key, 2, long), permit(key, 2, long)
		p.joins(p.a, late, other)
		time.Sleep(2 * short)
		p.hasNot(p.a, late)
		p.joins(p.b, next) // in its place
		p.hasNot(p.a, late)
		p.wantReleaseLost("Release of a share that has ended", p.a, late)
		p.has(p.a, other)
		p.has(p.b, next)
		p.refused(p.b, permit(key, 2, long))
		return nil
	})
}

func shortensNobody(p *pair) {
	p.sharers()
	a, b := shared("k", long), shared("k", short)
	p.joins(p.a, a)
	p.joins(p.b, b)
	_ = p.renew(p.b, b) // too late on a slow machine
	time.Sleep(2 * short)
	p.refused(p.b, claim("k", long))
	p.has(p.a, a)
	p.release(p.a, a, nil)
	p.free("k")
}

var errNotAllWanted = errors.New("not every process that owns a key is told that another waits")

// tellsOwners has an owner on each side. The claim that waits is of side b.
func tellsOwners(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		if err := p.hear(key + " too"); err != nil { // an owner that never waited may hear nothing
			return err
		}
		a, b, next := shared(key, long), shared(key, long), claim(key, long)
		p.joins(p.b, b)
		p.joins(p.a, a)
		if err := p.wait(p.b, next); err != nil {
			return err
		}
		for start := time.Now(); p.a.ear.timesWanted(key) == 0; pause() {
			if time.Since(start) > p.hearing {
				return errNotAllWanted
			}
		}
		return nil
	})
}

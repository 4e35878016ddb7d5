package lockercheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// A store may give a claim that lingers its TTL, and not only its offer. The
// guard counts on no more than [locker.Claim.First], so the longer lease
// excludes as well. It costs others time only if the process dies.
var listening = []Check{
	{"who lingers is told again at each look", "Locker.Listens, law 4", toldAtEachLook},
	{"an answer tells whether the owner lingers", "Answer.Lingers, law 4", tellsLingers},
	{"who lingers can be seen", "KeyState.Lingers", seesLingers},
	{"the first lease of who lingers lasts its offer", "Claim.First", firstLease},
	{"a closed locker does not listen", "Locker.Listens", closedIsDeaf},
}

var (
	errDeaf    = errors.New("Listens is false, want it to see to it that messages arrive")
	errNotTold = errors.New("Listens is true, and Wanted does not tell an owner that lingers of each look")
)

// listener returns the locker of s. If its keys cannot linger, listener ends
// the check as skipped.
func (p *pair) listener(s *side) locker.Locker {
	needs(p.can.Lingers, "Lingers")
	return s.Locker
}

// lingering is claim with Lingers.
func lingering(key string) *locker.Claim {
	c := claim(key, long)
	c.Lingers = true
	return c
}

// hears waits until s hears more than before.
func (p *pair) hears(before int, heard func() int) bool {
	return comesTrue(p.hearing, func() bool { return heard() > before })
}

func toldAtEachLook(p *pair) {
	l := p.listener(p.a)
	for _, kind := range p.kinds() {
		p.rounds(func(key string) error {
			if !l.Listens() {
				return errDeaf
			}
			waits := claim(key, long)
			kind(waits)
			p.acquire(p.a, lingering(key))
			for n := range 3 {
				before := p.a.ear.timesWanted(key)
				if _, err := p.look(p.b, waits, locker.Try{Queued: n > 0}); err != nil {
					return err
				}
				if !p.hears(before, func() int { return p.a.ear.timesWanted(key) }) {
					return errNotTold
				}
			}
			return nil
		})
	}
}

// kinds make claims of each kind that the store has.
func (p *pair) kinds() []func(c *locker.Claim) {
	all := []func(c *locker.Claim){func(*locker.Claim) {}}
	if p.can.Records {
		all = append(all, func(c *locker.Claim) { c.Recall = true })
	}
	if p.can.Shares {
		all = append(all, func(c *locker.Claim) { c.Limit = locker.NoLimit })
	}
	return all
}

func tellsLingers(p *pair) {
	p.listener(p.a)
	for key, c := range map[string]*locker.Claim{"stays": lingering("stays"), "goes": claim("goes", long)} {
		p.acquire(p.a, c)
		waits := claim(key, long)
		for _, t := range []locker.Try{{}, {Wait: true}, {Wait: true, Queued: true}} {
			if a := p.try(p.b, waits, t); a.Lingers != c.Lingers {
				fail("Answer.Lingers is %t to %+v, and the Lingers of the owner's claim is %t", a.Lingers, t, c.Lingers)
			}
		}
		if !p.can.Several {
			continue
		}
		all := []*locker.Claim{claim("free of "+key, long), claim(key, long)}
		if as := p.together(p.b, all, false, 1); as[1].Lingers != c.Lingers {
			fail("Answer.Lingers of AcquireAll is %t, and the Lingers of the owner's claim is %t", as[1].Lingers,
				c.Lingers)
		}
	}
}

func seesLingers(p *pair) {
	p.listener(p.a)
	_, b := p.inspectors()
	for key, c := range map[string]*locker.Claim{"stays": lingering("stays"), "goes": claim("goes", long)} {
		p.acquire(p.a, c)
		if s := p.shows(b, key, ownedBy(c)); s.Lingers != c.Lingers {
			fail("KeyState.Lingers is %t, and the Lingers of the owner's claim is %t", s.Lingers, c.Lingers)
		}
	}
}

func firstLease(p *pair) {
	p.listener(p.a)
	c := lingering("k")
	sent := time.Now()
	p.acquire(p.a, c)
	remaining := p.refused(p.b, claim("k", long)).Remaining
	if least := c.First() - time.Since(sent) - rounding; remaining != 0 && (remaining < least || remaining > c.TTL) {
		fail("the first lease of a claim that lingers has %v left, want %v to %v", remaining, least, c.TTL)
	}
	sent = time.Now()
	if err := p.renew(p.a, c); err != nil {
		fail("Renew of a claim that lingers: %v, want success", err)
	}
	p.hasFullTTL("k", c.TTL, sent)
}

func closedIsDeaf(p *pair) {
	l := p.listener(p.a)
	p.rounds(func(string) error {
		if !l.Listens() {
			return errDeaf
		}
		return nil
	})
	p.closed(p.a)
	if l.Listens() {
		fail("Listens is true after Close, want false")
	}
}

// hearsAfterOutage queues a claim in an outage, if its request gets there, and
// another one right after it. A message may be lost, so the owner is told by
// Wanted or WakeAll.
func hearsAfterOutage(p *pair) {
	l := p.listener(p.a)
	p.rounds(func(key string) error {
		if !l.Listens() {
			return errDeaf
		}
		c, d := lingering(key), lingering(key+" after")
		for _, c := range []*locker.Claim{c, d} {
			if p.acquire(p.a, c); p.renew(p.a, c) != nil {
				return errTooSlow // its first lease is short
			}
		}
		heard := func(key string) func() int {
			return func() int { return p.a.ear.timesWanted(key) + p.a.ear.timesWokenFor("") }
		}
		before := heard(key)()
		p.broken(func() {
			_, _ = p.within(func(ctx context.Context) error {
				_, err := p.b.Acquire(ctx, claim(key, long), locker.Try{Wait: true})
				return err
			})
		})
		if _, err := p.look(p.b, claim(d.Key, long), locker.Try{}); err != nil {
			return err
		}
		p.hearing = time.Second // less than QueueLife
		const silent = "a claim was queued %s an outage, and neither Wanted nor WakeAll told its owner, which lingers"
		told := p.hears(before, heard(key))
		switch r, err := p.a.Release(p.ctx, c, locker.End{}); {
		case err != nil:
			fail("Release of %q by its owner: %v, want success", key, err)
		case r.Waiting > 0 && !told:
			return fmt.Errorf(silent, "in")
		}
		if told := p.hears(before, heard(d.Key)); !told {
			return fmt.Errorf(silent, "after")
		}
		return nil
	})
}

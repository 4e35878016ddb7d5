package lockercheck

import (
	"time"

	"github.com/go-lockguard/guard/locker"
)

var abandoning = []Check{
	{"an abandoned claim leaves nothing behind", "Locker.Abandon", abandonFrees},
	{"an abandoned claim that arrives late is freed too", "Locker.Abandon", abandonFreesAgain},
	{"Close frees at once what Abandon would free later", "Locker.Close", closeFreesLate},
	{"an abandoned claim leaves others alone", "Locker.Abandon", abandonComparesOwner},
	{"an abandoned claim leaves the next of its process alone", "Locker.Abandon", abandonSparesNext},
}

// abandon gives c up on s, and leaves nothing of it.
func (p *pair) abandon(s *side, c *locker.Claim) { p.giveUp(s, c, locker.End{}) }

// giveUp abandons c on s as e says. The call must not wait for anything. Late
// requests of c may come.
func (p *pair) giveUp(s *side, c *locker.Claim, e locker.End) {
	start := time.Now()
	s.Abandon(c, e, true)
	if took := time.Since(start); took > patience/4 {
		fail("Abandon took %v, want it not to wait", took)
	}
}

// closed closes s. Close waits for all that Abandon began.
func (p *pair) closed(s *side) {
	if err := s.close(p.ctx); err != nil {
		fail("%w", err)
	}
}

func abandonFrees(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	p.abandon(p.a, c)
	next := p.eventually(p.b, "k", long)
	p.closed(p.a)
	if err := p.renew(p.b, next); err != nil {
		fail("Renew by the owner that came after an abandoned claim: %v, want success", err)
	}
}

// abandonFreesAgain sends the late request itself, well before the second
// attempt to free the key is due. If the machine stalls at that moment, it
// starts over.
func abandonFreesAgain(p *pair) {
	key := p.comesLate()
	if _, ok := p.tries(p.b, claim(key, long), locker.Try{}); !ok {
		fail("Acquire of %q is refused after %v, want the key to be free by now; the claim was acquired again after "+
			"Abandon(c, late=true): the second pass, about 1 s later, did not free it", key, patience)
	}
}

// closeFreesLate closes the locker before its second attempt is due.
func closeFreesLate(p *pair) {
	key := p.comesLate()
	p.closed(p.a)
	if !p.settled(p.b, claim(key, long), locker.Try{}, acquired).Acquired {
		fail("Close returned nil and left a claim that acquired its key again after Abandon(c, late=true), want " +
			"it freed before")
	}
}

// comesLate abandons a claim of p.a with late, and then lets it acquire its key
// again, before the second attempt.
func (p *pair) comesLate() (key string) {
	p.rounds(func(k string) error {
		key = k
		c := claim(key, long)
		p.acquire(p.a, c)
		start := time.Now()
		p.abandon(p.a, c)
		p.release(p.b, p.eventually(p.b, key, long), nil)
		p.acquire(p.b, c)
		if time.Since(start) > time.Second/2 {
			return errTooSlow
		}
		return nil
	})
	return key
}

func abandonComparesOwner(p *pair) {
	c := claim("k", long)
	p.acquire(p.b, c)
	p.abandon(p.a, claim("k", long))
	p.abandon(p.a, resembling(c))
	p.closed(p.a)
	p.refused(p.b, claim("k", long))
	if err := p.renew(p.b, c); err != nil {
		fail("Renew by the owner, after others were abandoned: %v, want success", err)
	}
}

// abandonSparesNext lets the second attempt of Abandon find a newer claim of
// the same process. It finds that claim first in the queue and then in the key.
func abandonSparesNext(p *pair) {
	p.rounds(func(key string) error {
		holder, old, next := claim(key, long), claim(key, long), claim(key, long)
		p.acquire(p.a, holder)
		if err := p.wait(p.b, old); err != nil {
			return err
		}
		p.abandon(p.b, old)
		if err := p.wait(p.b, next); err != nil {
			return err
		}
		for start := time.Now(); time.Since(start) < 3*time.Second/2; time.Sleep(short) {
			if _, err := p.look(p.b, next, locker.Try{Queued: true}); err != nil {
				return err
			}
		}
		if _, err := p.handOver(p.a, holder, p.b, next); err != nil {
			return err
		}
		p.owns(p.b, next)
		return nil
	})
}

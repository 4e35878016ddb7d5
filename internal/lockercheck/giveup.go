package lockercheck

import (
	"time"

	"github.com/go-lockguard/guard/locker"
)

var givingUp = []Check{
	{"a claim that was given up leaves nothing behind", "Locker.Release, End.Queued", givenUpFrees},
	{"a claim that was given up leaves others alone", "Locker.Release, End.Queued", givenUpComparesOwner},
	{"a claim that was given up leaves the next of its process alone", "Locker.Release, End.Queued", givenUpSparesNext},
}

// closed closes s, when all that was given up is done.
func (p *pair) closed(s *side) {
	if err := s.close(p.ctx); err != nil {
		fail("%w", err)
	}
}

func givenUpFrees(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	p.a.giveUp(c, locker.End{}, false)
	next := p.eventually(p.b, "k", long)
	p.closed(p.a)
	if err := p.renew(p.b, next); err != nil {
		fail("Renew by the owner that came after a claim that was given up: %v, want success", err)
	}
}

func givenUpComparesOwner(p *pair) {
	c := claim("k", long)
	p.acquire(p.b, c)
	p.a.giveUp(claim("k", long), locker.End{}, false)
	p.a.giveUp(resembling(c), locker.End{}, false)
	p.closed(p.a)
	p.refused(p.b, claim("k", long))
	if err := p.renew(p.b, c); err != nil {
		fail("Renew by the owner, after others were given up: %v, want success", err)
	}
}

// givenUpSparesNext lets the second release of a claim find a newer claim of
// the same process. It finds that claim first in the queue and then in the key.
func givenUpSparesNext(p *pair) {
	p.rounds(func(key string) error {
		holder, old, next := claim(key, long), claim(key, long), claim(key, long)
		p.acquire(p.a, holder)
		if err := p.wait(p.b, old); err != nil {
			return err
		}
		p.b.giveUp(old, locker.End{}, true)
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

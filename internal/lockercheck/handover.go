package lockercheck

import (
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var handover = []Check{
	{"a release gives the key to who waits", "Locker.Release, law 7", handsOver},
	{"a lost message costs the next look only", "law 4", lostMessage},
	{"an offer lasts its time, and ends", "Claim.Offer, law 5", offerEnds},
	{"a release finds nobody and frees the key", "Locker.Release", handsToNobody},
	{"a release that comes twice takes nothing from the next owner", "law 8", handsOnce},
	{"a late release of a free key serves who waits", "Locker.Release", handsFreeKey},
}

func handsOver(p *pair) {
	p.rounds(func(key string) error {
		c, next, err := p.waited(key)
		if err != nil {
			return err
		}
		p.b.ear.wakened(key)
		sent := time.Now()
		r := p.release(p.a, c, nil)
		if err := counted(r, 1); err != nil {
			return err
		}
		g, err := p.served(p.b, next, r, sent)
		if err != nil {
			return err
		}
		if err := g.left(0); err != nil {
			return err
		}
		p.owns(p.b, next)
		p.release(p.b, next, nil)
		p.free(key)
		return nil
	})
}

// lostMessage looks for its key in the way of a process whose messages are
// lost.
func lostMessage(p *pair) {
	p.rounds(func(key string) error {
		c, next, err := p.waited(key)
		if err != nil {
			return err
		}
		p.release(p.a, c, nil)
		sent := p.comes(p.b, next, locker.Try{Wait: true, Queued: true})
		p.hasFullTTL(key, long, sent)
		p.owns(p.b, next)
		return nil
	})
}

// offerEnds lets a process die before it hears of its grant.
func offerEnds(p *pair) {
	p.rounds(func(key string) error {
		c, dead, err := p.waited(key)
		if err != nil {
			return err
		}
		sent := time.Now()
		r := p.release(p.a, c, nil)
		g, woken, err := p.told(p.b, dead, r)
		switch {
		case err != nil || !r.Handed:
			return err
		case woken:
			return errWoken
		}
		p.eventually(p.a, key, long)
		if took := time.Since(sent); took < g.Length-rounding {
			fail("a key that was handed over was free for others %v after the release, want %v "+
				"as Granted told", took, g.Length)
		}
		return nil
	})
}

func handsToNobody(p *pair) {
	c, next := claim("k", long), claim("k", long)
	p.acquire(p.a, c)
	if r := p.release(p.a, c, next); r.Handed || r.Queued {
		fail("Release of a key that nobody waits for: %+v, want it handed to nobody and next not queued", r)
	}
	p.free("k")
	if _, ok := p.a.ear.granted(next); ok {
		fail("the claim after a release was granted a key that it never waited for")
	}
}

func handsOnce(p *pair) {
	p.rounds(func(key string) error {
		c, next, third := claim(key, long), claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		if err := p.wait(p.b, next, third); err != nil {
			return err
		}
		if _, err := p.handOver(p.a, c, p.b, next); err != nil {
			return err
		}
		p.wantReleaseLost("the second Release, of a key that was handed over", p.a, c)
		p.a.giveUp(c, locker.End{}, false)
		p.closed(p.a)
		if _, ok := p.b.ear.granted(third); ok {
			fail("a key was handed on by who had released it before")
		}
		if err := p.renew(p.b, next); err != nil {
			fail("Renew by who was handed the key: %v, want success", err)
		}
		return nil
	})
}

// handsFreeKey lets the lease of a holder end while another claim waits. Then
// the holder comes back.
func handsFreeKey(p *pair) {
	comeBack := map[string]func(c *locker.Claim){
		"Release":                 func(c *locker.Claim) { p.wantReleaseLost("Release after expiry", p.a, c) },
		"a Release that gives up": func(c *locker.Claim) { p.a.giveUp(c, locker.End{}, false) },
	}
	for _, how := range []string{"Release", "a Release that gives up"} {
		p.rounds(func(key string) error {
			key += how
			c, next := claim(key, short), claim(key, long)
			start := time.Now()
			p.acquire(p.a, c)
			if a := p.try(p.b, next, locker.Try{Wait: true}); a.Acquired {
				return freeEarly(c, start)
			} else if !a.Queued {
				return errNotQueued
			}
			time.Sleep(2 * short)
			sent := time.Now()
			comeBack[how](c)
			if _, err := p.served(p.b, next, unanswered, sent); err != nil {
				return fmt.Errorf("%s by a claim whose TTL has ended: %w", how, err)
			}
			return nil
		})
	}
}

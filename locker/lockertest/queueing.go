package lockertest

import (
	"time"

	"github.com/go-lockguard/guard/locker"
)

var queueing = []Check{
	{"who waits longest is served first, and who releases last", servesInOrder},
	{"a waiter that comes again keeps its place", keepsPlace},
	{"an owner id is queued once", queuesOnce},
	{"a claim that acquires its key leaves the queue", acquirerLeaves},
	{"a claim in the queue lives while it is seen", queueLives},
	{"a claim that nobody sees leaves the queue", queueEnds},
	{"a holder learns that others wait", tellsHolderOfWaiters},
}

// inOrder sees second served before third by the release of c, both having been queued since then.
func (p *pair) inOrder(c, second, third *locker.Claim, since time.Time) error {
	_, err := p.handOver(p.a, c, p.b, second)
	if _, ok := p.a.ear.granted(third); ok && time.Since(since) < locker.QueueLife {
		fail("the second in the queue was served before the first")
	}
	return err
}

// hear sees to it that both sides can be told of key, so that nobody is passed over for that.
func (p *pair) hear(key string) error {
	c, onB, onA := claim(key, long), claim(key, long), claim(key, long)
	p.acquire(p.a, c)
	if err := p.wait(p.b, onB); err != nil {
		return err
	}
	if _, err := p.handOver(p.a, c, p.b, onB); err != nil {
		return err
	}
	if err := p.wait(p.a, onA); err != nil {
		return err
	}
	if _, err := p.handOver(p.b, onB, p.a, onA); err != nil {
		return err
	}
	p.release(p.a, onA, nil)
	return nil
}

func servesInOrder(p *pair) {
	p.rounds(func(key string) error {
		if err := p.hear(key); err != nil {
			return err
		}
		start := time.Now()
		c, second, third, err := p.queue(key)
		if err != nil {
			return err
		}
		if _, err := p.look(p.b, second, locker.Try{Queued: true}); err != nil { // moves nobody
			return err
		}
		if err := p.inOrder(c, second, third, start); err != nil {
			return err
		}
		return p.releaserComesLast(second, third)
	})
}

// releaserComesLast releases second with a next claim, of which third, which waits, must not learn.
func (p *pair) releaserComesLast(second, third *locker.Claim) error {
	p.a.ear.wakened(third.Key)
	next := claim(second.Key, long)
	sent := time.Now()
	r := p.release(p.b, second, next)
	switch {
	case r.Waiting != 1: // next does not count
		return errNotCounted
	case r.Handed && (!r.Queued || r.Place == 0):
		fail("Release that handed the key over: %+v, want next in the queue and its place", r)
	}
	g, err := p.served(p.a, third, r, sent)
	if err != nil {
		return err
	}
	if r.Queued && g.times > 0 && g.waiting == 0 {
		fail("Granted tells that nobody waits, while the claim after the release does")
	}
	if !r.Queued {
		if err := p.wait(p.b, next); err != nil {
			return err
		}
	}
	_, err = p.handOver(p.a, third, p.b, next)
	return err
}

func keepsPlace(p *pair) {
	p.rounds(func(key string) error {
		if err := p.hear(key); err != nil {
			return err
		}
		start := time.Now()
		c, again, first, later := claim(key, long), claim(key, long), claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		place, err := p.look(p.b, first, locker.Try{})
		if err != nil {
			return err
		}
		pause()
		if err := p.wait(p.a, later); err != nil {
			return err
		}
		p.abandon(p.b, first)
		if _, err := p.look(p.b, again, locker.Try{Place: place}); err != nil {
			return err
		}
		return p.inOrder(c, again, later, start)
	})
}

// queuesOnce lets an offer end before its claim looks again. A store that wakes by watching grants nothing to be late for.
func queuesOnce(p *pair) {
	p.rounds(func(key string) error {
		c, late := claim(key, long), claim(key, short)
		p.acquire(p.a, c)
		if err := p.wait(p.b, late); err != nil {
			return err
		}
		p.b.ear.wakened(key)
		r := p.release(p.a, c, nil)
		if !r.Handed {
			_, _, err := p.told(p.b, late, r)
			return err
		}
		if _, _, err := p.told(p.b, late, r); err != nil {
			return err
		}
		owner := p.eventually(p.a, key, long)
		if a := p.try(p.b, late, locker.Try{Wait: true, Queued: true}); a.Acquired || a.Queued {
			fail("Acquire by a claim that came too late for its grant: %+v, want it refused and not queued", a)
		}
		if r := p.release(p.a, owner, nil); r.Handed {
			fail("a claim that came too late for its grant was granted the key again")
		}
		p.free(key)
		return nil
	})
}

// acquirerLeaves lets a lease end, and who waits for it find that out by itself.
func acquirerLeaves(p *pair) {
	p.rounds(func(key string) error {
		next := claim(key, long)
		p.acquire(p.a, claim(key, short))
		if a := p.try(p.b, next, locker.Try{Wait: true}); a.Acquired {
			return errTooSlow
		} else if !a.Queued {
			return errNotQueued
		}
		p.comes(p.b, next, locker.Try{Wait: true, Queued: true})
		if r := p.release(p.b, next, nil); r.Handed {
			fail("Release of a claim that had waited: %+v, want the key handed to nobody", r)
		}
		p.free(key)
		return nil
	})
}

// queueLives looks often enough, and starts over if the machine does not.
func queueLives(p *pair) {
	p.rounds(func(key string) error {
		c, next := claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		if err := p.wait(p.b, next); err != nil {
			return err
		}
		for start, seen := time.Now(), time.Now(); time.Since(start) < 3*locker.QueueLife/2; {
			time.Sleep(locker.QueueLife / 4)
			_, err := p.look(p.b, next, locker.Try{Queued: true})
			if time.Since(seen) > locker.QueueLife/2 {
				return errTooSlow
			}
			if err != nil {
				fail("a claim left the queue though it is seen every %v", locker.QueueLife/4)
			}
			seen = time.Now()
		}
		_, err := p.handOver(p.a, c, p.b, next)
		return err
	})
}

func queueEnds(p *pair) {
	p.rounds(func(key string) error {
		c, gone := claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		if err := p.wait(p.b, gone); err != nil {
			return err
		}
		time.Sleep(locker.QueueLife + short)
		if r := p.release(p.a, c, nil); r.Handed {
			fail("a claim was granted the key that nobody saw in the queue for more than %v", locker.QueueLife)
		}
		p.free(key)
		return nil
	})
}

// tellsHolderOfWaiters wants messages of a store that hands over, since it has them.
func tellsHolderOfWaiters(p *pair) {
	p.rounds(func(key string) error {
		if err := p.hear(key + " too"); err != nil { // a holder that never waited may hear nothing
			return err
		}
		c, next := claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		for n := range 3 {
			if _, err := p.look(p.b, next, locker.Try{Queued: n > 0}); err != nil {
				return err
			}
		}
		for start := time.Now(); time.Since(start) < p.hearing && p.a.ear.timesWanted(key) == 0; {
			pause()
		}
		r := p.release(p.a, c, nil)
		n := p.a.ear.timesWanted(key)
		switch {
		case n > 1:
			return errWantedOften
		case n == 0 && (r.Handed || r.Waiting == 0):
			return errNotWanted
		}
		return nil
	})
}

package lockercheck

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var queueing = []Check{
	{"who waits longest is served first, and who releases last", "law 7", servesInOrder},
	{"a waiter that comes again keeps its place", "Try.Place", keepsPlace},
	{"an owner id is queued once", "law 2", queuesOnce},
	{"a claim that acquires its key leaves the queue", "law 2", acquirerLeaves},
	{"a claim in the queue lives while it is seen", "QueueLife", queueLives},
	{"a claim that nobody sees leaves the queue", "QueueLife", queueEnds},
	{"a claim that nobody sees is not granted, whoever else looks", "QueueLife", unseenEnds},
	{"a claim that comes back late keeps what it gets", "QueueLife", comesBack},
	{"a claim that comes back as its offer ends keeps what it gets", "law 1", offerComesBack},
	{"a holder learns that others wait", "Waker.Wanted", tellsHolderOfWaiters},
}

// hear waits until both sides can be told of key, so that no claim is passed
// over because its process cannot hear.
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
		if _, err := p.look(p.b, second, locker.Try{Queued: true}); err != nil { // moves no claim
			return err
		}
		next := claim(key, long)
		if err := p.releaserComesLast(c, second, next, func() {
			p.notBefore(third, start, "the second in the queue was served before the first")
			p.notBefore(next, start, "the claim after a release was served before those who wait")
		}); err != nil {
			return err
		}

		g, err := p.handOver(p.b, second, p.a, third)
		p.notBefore(next, start, "the claim after a release was served before one that waited already")
		if err != nil {
			return err
		}
		if err := g.left(1); err != nil {
			return err
		}
		_, err = p.handOver(p.a, third, p.a, next)
		return err
	})
}

// notBefore fails if c, which waits on p.a, was granted its key in front of
// claims that were seen after the given time. A hand-over that comes later may
// pass them over (law 6).
func (p *pair) notBefore(c *locker.Claim, seen time.Time, wrong string) {
	if _, ok := p.a.ear.granted(c); ok && p.freed.Sub(seen) < locker.LookEvery {
		fail("%s; %s", wrong, p.saw(c.Key))
	}
}

// releaserComesLast releases c with a next claim, while second and another
// claim behind it wait. It then checks that second is served.
func (p *pair) releaserComesLast(c, second, next *locker.Claim, order func()) error {
	p.b.ear.wakened(c.Key)
	sent := time.Now()
	r := p.release(p.a, c, next)
	p.freed = time.Now()
	if r.Handed && (!r.Queued || r.Place == 0) {
		fail("Release that handed the key over: %+v, want next in the queue and its place", r)
	}
	g, err := p.served(p.b, second, r, sent)
	order()
	if err != nil {
		return err
	}
	if !r.Queued {
		if err := p.wait(p.a, next); err != nil {
			return err
		}
	}
	return errors.Join(counted(r, 2), g.left(2))
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
		p.b.giveUp(first, locker.End{}, false)
		got, err := p.look(p.b, again, locker.Try{Place: place})
		if err != nil {
			return err
		}
		_, err = p.handOver(p.a, c, p.b, again)
		p.notBefore(later, start, fmt.Sprintf(
			"a claim that came again with Try.Place %d was queued at %d, and one that came later "+
				"was served first", place, got))
		return err
	})
}

// queuesOnce lets an offer end before its claim looks again. It finds nothing
// in a store that wakes by watching, because such a store makes no offers.
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
			fail("Acquire by a claim that came too late for its grant: Acquired %v, Queued "+
				"%v, want neither", a.Acquired, a.Queued)
		}
		if r := p.release(p.a, owner, nil); r.Handed {
			fail("a claim that came too late for its grant was granted the key again")
		}
		p.free(key)
		return nil
	})
}

// acquirerLeaves lets a lease end. The claim that waits for it finds that out
// by itself.
func acquirerLeaves(p *pair) {
	p.rounds(func(key string) error {
		c, next := claim(key, short), claim(key, long)
		start := time.Now()
		p.acquire(p.a, c)
		if a := p.try(p.b, next, locker.Try{Wait: true}); a.Acquired {
			return freeEarly(c, start)
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

// queueLives looks often enough. It starts over if the machine is too slow for
// that.
func queueLives(p *pair) {
	p.rounds(func(key string) error {
		c, next := claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		start, seen := time.Now(), time.Now() // not later than the store saw it
		if err := p.wait(p.b, next); err != nil {
			return err
		}
		for time.Since(start) < 3*locker.QueueLife/2 {
			time.Sleep(locker.QueueLife / 4)
			sent := time.Now()
			_, err := p.look(p.b, next, locker.Try{Queued: true})
			switch took := time.Since(seen); {
			case err != nil && took > locker.QueueLife/2:
				return fmt.Errorf("%v passed from look to look, one every %v and an Acquire, too long to tell",
					took, locker.QueueLife/4)
			case err != nil:
				fail("a claim left the queue though it is seen every %v", locker.QueueLife/4)
			}
			seen = sent
		}
		_, err := p.handOver(p.a, c, p.b, next)
		return err
	})
}

func queueEnds(p *pair) {
	p.rounds(func(key string) error {
		c, _, err := p.waited(key)
		if err != nil {
			return err
		}
		slow := sleep(locker.QueueLife + short)
		if r := p.release(p.a, c, nil); r.Handed {
			return orFail(slow, "a claim was granted the key that nobody saw in the queue for more than %v",
				locker.QueueLife)
		}
		p.free(key)
		return nil
	})
}

// unseenEnds lets one claim look at the queue for as long as the claim in front
// of it does not.
func unseenEnds(p *pair) {
	p.rounds(func(key string) error {
		c, unseen, seen, err := p.queue(key)
		if err != nil {
			return err
		}
		var slow error
		for start := time.Now(); time.Since(start) < locker.QueueLife+short; {
			if _, err := p.look(p.a, seen, locker.Try{Queued: true}); err != nil {
				return err
			}
			slow = errors.Join(slow, sleep(locker.QueueLife/8))
		}
		_, err = p.handOver(p.a, c, p.a, seen)
		if _, ok := p.b.ear.granted(unseen); ok {
			return orFail(slow, "a claim was granted the key that was not seen for more than %v, because another "+
				"looked at the queue", locker.QueueLife)
		}
		return err
	})
}

// comesBack has claims come back just when nobody has looked at them for
// QueueLife. Their keys were of a process that died, and are free.
func comesBack(p *pair) {
	const ends = 3 * locker.QueueLife / 4
	cs, seen := make([]*locker.Claim, 40), make([]time.Time, 40)
	for i := range cs {
		p.acquire(p.a, claim(fmt.Sprint("k", i), ends))
	}
	p.closed(p.a)
	for i := range cs {
		cs[i] = claim(fmt.Sprint("k", i), long)
		seen[i] = time.Now()
		p.try(p.b, cs[i], locker.Try{Wait: true})
		time.Sleep(8 * time.Millisecond)
	}
	var got []*locker.Claim
	for i, c := range cs {
		time.Sleep(time.Until(seen[i].Add(locker.QueueLife + time.Duration(i%8)*time.Millisecond/2)))
		if p.try(p.b, c, locker.Try{Wait: true, Queued: true}).Acquired {
			got = append(got, c)
		}
	}
	p.keepsAll(got)
}

// keepsAll wants that claims of p.b that were away for long own what they have
// acquired since.
func (p *pair) keepsAll(got []*locker.Claim) {
	time.Sleep(short)
	for _, err := range p.renewEach(p.b, got) {
		if err != nil {
			fail("Renew by a claim that came back late and acquired its key then: %v, want success, or no key", err)
		}
	}
}

// offerComesBack is comesBack for claims that were handed their keys.
func offerComesBack(p *pair) {
	cs, ends := make([]*locker.Claim, 16), make([]time.Time, 16)
	for i := range cs {
		var c *locker.Claim
		c, cs[i], _ = p.waited(fmt.Sprint("k", i))
		sent := time.Now()
		p.release(p.a, c, nil)
		g, ok := p.b.ear.granted(cs[i])
		for ; !ok && time.Since(sent) < short; g, ok = p.b.ear.granted(cs[i]) {
			time.Sleep(time.Millisecond)
		}
		ends[i] = time.Now().Add(g.Length)
	}
	var got []*locker.Claim
	for i, c := range cs {
		time.Sleep(time.Until(ends[i].Add(time.Duration(i%8) * time.Millisecond / 2)))
		if p.try(p.b, c, locker.Try{Wait: true, Queued: true}).Acquired {
			got = append(got, c)
		}
	}
	p.keepsAll(got)
}

// tellsHolderOfWaiters wants messages of a store that hands over, because such
// a store has them.
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

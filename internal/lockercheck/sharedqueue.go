package lockercheck

import (
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The order among claims with limits.
var sharedQueue = []Check{
	{"a newcomer stays behind who waits", "law 10", newcomerWaits},
	{"who died waiting keeps newcomers out for a while only", "law 10", deadLetsIn},
	{"those behind who gets a key may get it in the same step", "law 10", runComesIn},
	{"who releases a key and may share it can be one of the next", "Locker.Release", releaserJoins},
	{"who leaves the queue lets in those behind", "law 3", leaverLetsIn},
	{"a share that nobody knows goes on", "law 3", unknownShareGoesOn},
	{"a lost message of a share costs the next look only", "law 4", lostShare},
	{"a shared claim that came too late is not queued again", "law 2", shareQueuedOnce},
}

// behind queues c, a newcomer that may own the key beside its owners. A claim
// in front of it, which may not, was seen at the given time or later.
func (p *pair) behind(s *side, c *locker.Claim, seen time.Time) error {
	switch a := p.try(s, c, locker.Try{Wait: true}); {
	case a.Acquired && time.Since(seen) > locker.LookEvery:
		return errTooSlow
	case a.Acquired:
		fail("a newcomer with limit %d owns the key, want it behind a claim that waits for all to be gone", c.Limit)
	case !a.Queued:
		return errNotQueued
	}
	pause()
	return nil
}

func newcomerWaits(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		owner, alone, late := shared(key, long), claim(key, long), shared(key, long)
		p.joins(p.a, owner)
		seen := time.Now()
		if err := p.wait(p.b, alone); err != nil {
			return err
		}
		if err := p.behind(p.a, late, seen); err != nil {
			return err
		}
		r := p.release(p.a, owner, nil)
		if err := p.gets(p.b, alone); err != nil {
			return err
		}
		p.hasNot(p.a, late)
		if err := counted(r, 2); err != nil {
			return err
		}
		p.release(p.b, alone, nil)
		return p.gets(p.a, late)
	})
}

// deadLetsIn looks for a while at a claim that must own the key alone, and then
// no more, as if its process had died.
func deadLetsIn(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		owner, alone, late := shared(key, long), claim(key, long), shared(key, long)
		p.joins(p.a, owner)
		t := locker.Try{Wait: true}
		var seen time.Time
		for start := time.Now(); time.Since(start) < 3*locker.LookEvery; time.Sleep(locker.LookEvery / 4) {
			seen = time.Now()
			if _, err := p.look(p.b, alone, t); err != nil {
				return err
			}
			switch a := p.try(p.a, late, t); {
			case a.Acquired && time.Since(seen) > locker.LookEvery:
				return errTooSlow
			case a.Acquired:
				fail("a newcomer owns the key, want it behind a claim that was just seen")
			case !a.Queued:
				return errNotQueued
			}
			t.Queued = true
		}
		if _, ok := p.tries(p.a, late, t); !ok {
			return fmt.Errorf("a newcomer is refused after %v, though the claim in front of it is dead", patience)
		}
		if took := time.Since(seen); took < locker.LookEvery {
			fail("a newcomer owns the key %v after a claim in front of it was seen, want it to wait for %v", took,
				2*locker.LookEvery)
		}
		p.has(p.a, owner)
		return nil
	})
}

// late returns errTooSlow in place of err if claims that were seen then have
// left the queue.
func late(seen time.Time, err error) error {
	if time.Since(seen) > locker.QueueLife {
		return errTooSlow
	}
	return err
}

// runComesIn has two shared claims in the queue, then one that must own the key
// alone, then a shared one.
func runComesIn(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		if err := p.hear(key + " too"); err != nil {
			return err
		}
		owner, first, second := claim(key, long), shared(key, long), shared(key, long)
		alone, last := claim(key, long), shared(key, long)
		p.acquire(p.a, owner)
		seen := time.Now()
		if err := p.wait(p.b, first, second, alone, last); err != nil {
			return err
		}
		r := p.release(p.a, owner, nil)
		for _, c := range []*locker.Claim{first, second} {
			if err := p.gets(p.b, c); err != nil {
				return late(seen, err)
			}
			if g, ok := p.b.ear.granted(c); ok && g.Waiting != 2 {
				fail("Granted tells that %d wait, want 2: those behind all that got the key", g.Waiting)
			}
		}
		p.hasNot(p.b, alone)
		if p.renew(p.b, last) == nil {
			if time.Since(seen) > locker.LookEvery {
				return errTooSlow // the one that waits in front of it may have left the queue
			}
			fail("a claim with limit %d owns the key, want it behind one that waits for all to be gone", last.Limit)
		}
		if err := counted(r, 4); err != nil {
			return err
		}
		p.release(p.b, first, nil)
		p.hasNot(p.b, alone)
		p.release(p.b, second, nil)
		if err := p.gets(p.b, alone); err != nil {
			return late(seen, err)
		}
		p.hasNot(p.b, last)
		return nil
	})
}

func releaserJoins(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		if err := p.hear(key + " too"); err != nil {
			return err
		}
		owner, waits, next := claim(key, long), shared(key, long), shared(key, long)
		p.acquire(p.a, owner)
		if err := p.wait(p.b, waits); err != nil {
			return err
		}
		r := p.release(p.a, owner, next)
		if !r.Queued {
			return errNotQueued
		}
		if err := p.gets(p.b, waits); err != nil {
			return err
		}
		return p.gets(p.a, next)
	})
}

func leaverLetsIn(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		owner, alone, first, second := shared(key, long), claim(key, long), shared(key, long), shared(key, long)
		p.joins(p.a, owner)
		seen := time.Now()
		if err := p.wait(p.b, alone); err != nil {
			return err
		}
		for _, c := range []*locker.Claim{first, second} {
			if err := p.behind(p.a, c, seen); err != nil {
				return err
			}
		}
		p.b.giveUp(alone, locker.End{}, false)
		for _, c := range []*locker.Claim{first, second} {
			if err := p.gets(p.a, c); err != nil {
				return fmt.Errorf("a Release that gives up a claim in front of it: %w", err)
			}
		}
		p.has(p.a, owner)
		return nil
	})
}

func unknownShareGoesOn(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		owner, gone, alone := claim(key, long), shared(key, long), claim(key, long)
		p.acquire(p.a, owner)
		if err := p.wait(p.b, gone); err != nil {
			return err
		}
		if err := p.wait(p.a, alone); err != nil {
			return err
		}
		sent := time.Now()
		if r := p.release(p.a, owner, nil); r.Handed {
			p.b.ear.Orphaned(key, gone.Owner)
		} else {
			p.b.giveUp(gone, locker.End{}, false)
		}
		if err := p.gets(p.a, alone); err != nil {
			return err
		}
		if time.Since(sent) > gone.ShortOffer() {
			return errNotFreed
		}
		return nil
	})
}

func lostShare(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		owner, next := claim(key, long), shared(key, long)
		p.acquire(p.a, owner)
		if err := p.wait(p.b, next); err != nil {
			return err
		}
		p.release(p.a, owner, nil)
		sent := p.comes(p.b, next, locker.Try{Wait: true, Queued: true})
		p.hasFullTTL(key, long, sent)
		p.release(p.b, next, nil)
		p.free(key) // so there was one share
		return nil
	})
}

// shareQueuedOnce gives a share back that its process never heard of.
func shareQueuedOnce(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		owner, late, alone := claim(key, long), shared(key, long), claim(key, long)
		p.acquire(p.a, owner)
		if err := p.wait(p.b, late); err != nil {
			return err
		}
		r := p.release(p.a, owner, nil)
		if err := p.gets(p.b, late); err != nil || !r.Handed {
			return err
		}
		p.release(p.b, late, nil)
		p.acquire(p.a, alone)
		if a := p.try(p.b, late, locker.Try{Wait: true, Queued: true}); a.Acquired || a.Queued {
			fail("Acquire by a claim whose share is over, of a key that one claim owns alone: Acquired %v, "+
				"Queued %v, want neither", a.Acquired, a.Queued)
		}
		return nil
	})
}

package lockercheck

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Claims with a limit of their own, alone and beside other claims.
var permits = []Check{
	{"no more claims own a key than there are permits", "law 9", permitsLimit},
	{"the lower of two limits decides", "law 9", lowerLimit},
	{"a limit ends with the claims that have it", "law 9", limitLeaves},
	{"a permit that has ended goes to the first who waits", "law 7", endedPermitGoesOn},
	{"a claim that must be alone waits for all permits", "law 9", aloneWaits},
	{"permits have tokens of their own, and shared claims have none", "law 9", permitTokens},
	{"claims of all kinds pass, and no more at once than may", "laws 9 and 10", allKindsPass},
	{"all owners of a key can be seen", "locker.Inspector", seesOwners},
	{"a forced release ends one share of several", "locker.Inspector", forcesShare},
}

func permitsLimit(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		a, b, c, first, second := permit(key, 3, long), permit(key, 3, long), permit(key, 3, long),
			permit(key, 3, long), permit(key, 3, long)
		p.joins(p.a, a, b)
		p.joins(p.b, c)
		p.refused(p.b, permit(key, 3, long))
		if err := p.wait(p.b, first); err != nil {
			return err
		}
		if err := p.wait(p.a, second); err != nil {
			return err
		}
		r := p.release(p.a, b, nil)
		if err := p.gets(p.b, first); err != nil {
			return err
		}
		p.hasNot(p.a, second)
		p.has(p.a, a)
		p.has(p.b, c)
		return counted(r, 2)
	})
}

func lowerLimit(p *pair) {
	p.sharers()
	low, high := permit("k", 2, long), permit("k", 4, long)
	p.joins(p.a, low)
	p.joins(p.b, high)
	p.refused(p.b, permit("k", 4, long))
	p.refused(p.b, shared("k", long))
	p.refused(p.a, permit("k", 2, long))

	p.joins(p.a, permit("l", 4, long), permit("l", 4, long))
	p.refused(p.b, permit("l", 2, long))
	p.joins(p.b, shared("l", long), permit("l", 4, long))
	p.refused(p.b, permit("l", 4, long))
}

func limitLeaves(p *pair) {
	p.sharers()
	low, high := permit("k", 2, long), permit("k", 4, long)
	p.joins(p.a, low, high)
	p.refused(p.b, permit("k", 4, long))
	p.release(p.a, low, nil)
	p.joins(p.b, permit("k", 4, long), permit("k", 4, long))
	p.refused(p.b, permit("k", 2, long))
	p.joins(p.b, permit("k", 4, long))
	p.refused(p.b, permit("k", 4, long))
}

// endedPermitGoesOn lets the second in the queue look when a lease has ended.
func endedPermitGoesOn(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		dead, other := permit(key, 2, short), permit(key, 2, long)
		first, second := permit(key, 2, long), permit(key, 2, long)
		start := time.Now()
		p.joins(p.a, dead, other)
		queued := time.Now()
		for _, c := range []*locker.Claim{first, second} {
			if a := p.try(p.b, c, locker.Try{Wait: true}); a.Acquired {
				return freeEarly(dead, start)
			} else if !a.Queued {
				return errNotQueued
			}
			pause()
		}
		time.Sleep(2 * short)
		if p.try(p.b, second, locker.Try{Wait: true, Queued: true}).Acquired {
			if time.Since(queued) > 3*short {
				return errTooSlow // the first may have left the queue, or its process be taken for dead
			}
			fail("the second in the queue has the permit that ended, want the first to have it")
		}
		return p.gets(p.b, first)
	})
}

func aloneWaits(p *pair) {
	p.sharers()
	p.rounds(func(key string) error {
		owner, other, alone, late := permit(key, 2, long), permit(key, 2, long), claim(key, long), permit(key, 2, long)
		p.joins(p.a, owner, other)
		if err := p.wait(p.b, alone); err != nil {
			return err
		}
		p.release(p.a, other, nil)
		seen := time.Now()
		if _, err := p.look(p.b, alone, locker.Try{Queued: true}); err != nil {
			return err
		}
		if err := p.behind(p.a, late, seen); err != nil {
			return err
		}
		p.release(p.a, owner, nil)
		if err := p.gets(p.b, alone); err != nil {
			return err
		}
		p.hasNot(p.a, late)
		p.release(p.b, alone, nil)
		return p.gets(p.a, late)
	})
}

func permitTokens(p *pair) {
	p.sharers()
	fenced := func(key string) *locker.Claim {
		c := permit(key, 2, long)
		c.Fencing = true
		return c
	}
	last := uint64(0)
	rises := func(token uint64) {
		if token < last+locker.FenceBlock {
			fail("token %d of a permit after %d, want at least %d more", token, last, locker.FenceBlock)
		}
		last = token
	}
	a, b := fenced("k"), fenced("k")
	rises(p.acquire(p.a, a) + locker.FenceBlock)
	last -= locker.FenceBlock
	for _, c := range []*locker.Claim{b} {
		rises(p.acquire(p.b, c))
	}
	token, err := p.a.Fence(p.ctx, a)
	if err != nil {
		fail("Fence by the owner of a permit: %v, want success", err)
	}
	rises(token)
	p.release(p.a, a, nil)
	_, err = p.a.Fence(p.ctx, a)
	wantLost("Fence after the release of a permit", err)
	p.release(p.b, b, nil)

	reader := shared("k", long)
	if t := p.settled(p.a, reader, locker.Try{}, acquired).Token; t != 0 {
		fail("token %d for a shared claim, want none", t)
	}
	p.release(p.a, reader, nil)
	rises(p.acquire(p.b, fencedClaim("k", long)))
}

// inside counts the claims that own a key at one instant, by their limits.
type inside struct {
	mu     sync.Mutex // guards now
	now    map[*locker.Claim]bool
	passed int
}

func (in *inside) enter(c *locker.Claim) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.now[c] = true
	for o := range in.now {
		if len(in.now) > max(o.Limit, 1) {
			return errors.New("more claims own a key at one instant than one of them allows")
		}
	}
	return nil
}

func (in *inside) leave(c *locker.Claim) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.now, c)
	in.passed++
}

// all returns how many have passed.
func (in *inside) all() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.passed
}

// allKindsPass lets contenders with different limits pass on both sides. They
// look, and do not wait for messages.
func allKindsPass(p *pair) {
	limits := []int{1, 2, 3, locker.NoLimit}
	p.sharers()
	in := &inside{now: make(map[*locker.Claim]bool)}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	q := &pair{ctx: ctx, a: p.a, b: p.b}
	errs := make(chan error, 2*len(limits))
	var wg sync.WaitGroup
	for _, s := range []*side{p.a, p.b} {
		for _, limit := range limits {
			wg.Go(func() {
				err := caught(func() error { return q.passes(s, limit, in) })
				errs <- err
				if err != nil {
					cancel() // only the first error counts
				}
			})
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			fail("%w", err)
		}
	}
	if want := 2 * len(limits) * turns; in.passed != want {
		fail("%d of %d claims passed", in.passed, want)
	}
}

// passes acquires and releases a key with this limit, again and again.
func (p *pair) passes(s *side, limit int, in *inside) error {
	for range turns {
		c, t := permit("k", limit, long), locker.Try{Wait: true}
		before, start, most := in.all(), time.Now(), patience
		for ; ; time.Sleep(5 * time.Millisecond) {
			if now := in.all(); now != before { // one of the others, each of which may be slow
				before, start, most = now, time.Now(), patience
			}
			if waits := time.Since(start); waits > most {
				fail("a claim with limit %d waits for a key: no claim has passed for %v", limit, waits)
			}
			asked := time.Now()
			a, err := s.Acquire(p.ctx, c, t)
			if unlessUnclear(err) != nil {
				return err
			}
			if a.Acquired {
				break
			}
			if took := time.Since(asked); took > c.ShortOffer()/2 { // nobody may have seen an offer before its end
				most = min(most+took, 5*patience)
			}
			if err != nil || t.Queued && !a.Queued { // too late for its grant
				c = s.anew(c)
				a = locker.Answer{}
			}
			t.Queued, t.Place = a.Queued, a.Place
		}
		err := in.enter(c)
		time.Sleep(100 * time.Microsecond)
		in.leave(c)
		_, lost := s.Release(p.ctx, c, locker.End{})
		if lost != nil && unlessUnclear(lost) == nil {
			s.giveUp(c, locker.End{}, true)
		} else if err == nil {
			err = lost
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func seesOwners(p *pair) {
	p.sharers()
	in, _ := p.inspectors()
	p.rounds(func(key string) error {
		a, b, alone := shared(key, long), permit(key, 4, long), claim(key, long)
		p.joins(p.a, a)
		p.joins(p.b, b)
		queued := time.Now()
		if err := p.wait(p.b, alone); err != nil {
			return err
		}
		s := p.shows(in, key, func(s locker.KeyState) bool { return len(s.Owners) == 2 && s.Waiting == 1 })
		if time.Since(queued) >= locker.QueueLife {
			return errTooSlow // it may have left the queue
		}
		if !s.Held || s.Limit != 4 || s.Owner != "" || len(s.Owners) != 2 || s.Waiting != 1 {
			fail("Inspect of a key with two owners, of limits %d and 4, and one claim that waits: %+v",
				locker.NoLimit, s)
		}
		for _, c := range []*locker.Claim{a, b} {
			if s.Owners[0].Owner != c.Owner && s.Owners[1].Owner != c.Owner {
				fail("Inspect of a key with two owners: %+v, want %s to be one", s.Owners, p.name(c))
			}
		}
		p.isSelf(s.Owners[0].Holder, p.owner(s.Owners[0].Owner))
		p.release(p.a, a, nil)
		p.release(p.b, b, nil)
		if err := p.gets(p.b, alone); err != nil {
			return err
		}
		if s := p.shows(in, key, ownedBy(alone)); s.Limit != 0 || s.Owners != nil || s.Owner != alone.Owner {
			fail("Inspect of a key that one claim owns alone: %+v", s)
		}
		return nil
	})
}

// owner returns the side that a claim came to.
func (p *pair) owner(id string) *side {
	for _, a := range p.came {
		if a.claim.Owner == id {
			return a.side
		}
	}
	fail("the owner %s is none of the claims", id)
	return nil
}

func forcesShare(p *pair) {
	p.sharers()
	in, _ := p.inspectors()
	a, b := shared("k", long), shared("k", long)
	p.joins(p.a, a)
	p.joins(p.b, b)
	if err := in.ForceRelease(p.ctx, "k", b.Owner); err != nil {
		fail("ForceRelease of one of two owners: %v, want success", err)
	}
	p.hasNot(p.b, b)
	p.has(p.a, a)
	wantLost("a second ForceRelease of a share", in.ForceRelease(p.ctx, "k", b.Owner))
	p.has(p.a, a)
	p.refused(p.b, claim("k", long))
}

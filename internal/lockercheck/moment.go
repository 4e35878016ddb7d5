package lockercheck

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Events that come at the same time as others.
var moment = []Check{
	{
		"a claim that is queued in the moment of a release stays queued",
		"Locker.Acquire, Locker.Release", queuedAtRelease,
	},
	{"a claim is not written to while the guard reads it", "Claim.Holder", leavesClaim},
}

// queuedAtRelease queues claims during a release. A store that reads the queue,
// and then writes back its result, loses some of them.
func queuedAtRelease(p *pair) {
	const rounds = 40
	var took time.Duration // the length of the last release
	for n := range rounds {
		key := fmt.Sprintf("k%d", n)
		c, first := claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		if a := p.try(p.b, first, locker.Try{Wait: true}); !a.Queued {
			fail("%w", errNotQueued)
		}
		cs := []*locker.Claim{claim(key, long), claim(key, long), claim(key, long), claim(key, long)}
		for _, c := range cs {
			p.note(p.b, c)
		}
		start, before := time.Now(), took
		errs := make([]error, len(cs)+1)
		var all sync.WaitGroup // ends with the calls
		for i, c := range cs {
			all.Go(func() {
				time.Sleep(before * time.Duration((n+i)%8) / 8)
				errs[i] = p.staysQueued(c, start)
			})
		}
		r, err := p.a.Release(p.ctx, c, locker.End{})
		took = time.Since(start)
		if err != nil {
			fail("Release of %q by its owner, while others are queued: %v, want success (it answered %+v)", key, err, r)
		}
		all.Wait()
		for _, c := range append(cs, first) {
			p.b.giveUp(c, locker.End{}, false)
		}
		if err := errors.Join(errs...); err != nil {
			fail("%w", err)
		}
	}
}

// staysQueued queues c, and looks at it once more after the release that began
// at start. If that took so long that an offer may have ended, it finds no
// fault.
func (p *pair) staysQueued(c *locker.Claim, start time.Time) error {
	a, err := p.b.Acquire(p.ctx, c, locker.Try{Wait: true})
	if err != nil || !a.Queued {
		return unlessUnclear(err)
	}
	pause()
	again, err := p.b.Acquire(p.ctx, c, locker.Try{Wait: true, Queued: true})
	if err != nil || again.Queued || again.Acquired || time.Since(start) > time.Second/2 {
		return unlessUnclear(err)
	}
	return fmt.Errorf("a claim was queued at place %d in the moment of a release, and is not in the "+
		"queue any more", a.Place)
}

// unlessUnclear returns err, or nil if the store gave no answer.
func unlessUnclear(err error) error {
	if errors.Is(err, locker.ErrUnavailable) {
		return nil
	}
	return err
}

// leavesClaim reads a claim beside each call after the first one. The race
// detector finds a locker that writes to the claim then. So the check finds its
// fault only in a test that was built with -race.
func leavesClaim(p *pair) {
	c, next := fencedClaim("k", long), fencedClaim("k", long)
	p.acquire(p.a, c)
	reading(c, func() { p.acquire(p.a, c) })
	reading(c, func() { _ = p.renew(p.a, c) })
	reading(c, func() { _, _ = p.a.Fence(p.ctx, c) })
	p.try(p.b, next, locker.Try{Wait: true})
	reading(next, func() { p.try(p.b, next, locker.Try{Wait: true, Queued: true}) })
	reading(next, func() {
		reading(c, func() { p.release(p.a, c, nil) })
	})
	p.comes(p.b, next, locker.Try{Wait: true, Queued: true})
	reading(next, func() {
		p.b.giveUp(next, locker.End{}, false)
		p.closed(p.b)
	})
}

// reading reads c while call runs. Once is enough for the race detector.
func reading(c *locker.Claim, call func()) {
	done := make(chan locker.Claim, 1)
	go func() { // ends at once
		done <- locker.Claim{Key: c.Key, Owner: c.Owner, TTL: c.TTL, Fencing: c.Fencing, Holder: c.Holder}
	}()
	call()
	<-done
}

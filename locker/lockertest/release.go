package lockertest

import (
	"time"

	"github.com/go-lockguard/guard"
)

var release = []Check{
	{"a release compares the owner", releaseComparesOwner},
	{"a release after expiry leaves the new owner alone", releaseAfterExpiry},
	{"a key is released once", releaseOnce},
	{"a release tells that others wait", releaseTellsOfWaiters},
}

var abandoning = []Check{
	{"an abandoned claim leaves nothing behind", abandonFrees},
	{"an abandoned claim that arrives late is freed too", abandonFreesAgain},
	{"an abandoned claim leaves others alone", abandonComparesOwner},
}

func (p *pair) wantReleaseLost(what string, l guard.Locker, c *guard.Claim) {
	_, err := l.Release(p.ctx, c)
	wantLost(what, err)
}

func releaseComparesOwner(p *pair) {
	c := claim("k", long)
	p.wantReleaseLost("Release of a key that nobody holds", p.a, c)
	p.acquire(p.a, c)
	for _, l := range []guard.Locker{p.a, p.b} {
		p.wantReleaseLost("Release by another owner", l, claim("k", long))
		p.wantReleaseLost("Release by an owner with almost the same id", l, resembling(c))
	}
	p.owns(p.a, c)
}

func releaseAfterExpiry(p *pair) {
	old := claim("k", short)
	p.acquire(p.a, old)
	next := p.eventually(p.b, "k", long)
	p.wantReleaseLost("Release after expiry, when another owns the key", p.a, old)
	p.owns(p.b, next)
	p.release(p.b, next)
	p.wantReleaseLost("Release after expiry, when nobody owns the key", p.a, old)
}

func releaseOnce(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	p.release(p.a, c)
	p.wantReleaseLost("the second Release", p.a, c)

	next := claim("k", long)
	p.acquire(p.a, next)
	p.wantReleaseLost("the third Release, when another owns the key", p.a, c)
	p.owns(p.a, next)
}

// releaseTellsOfWaiters goes several rounds, because a locker may learn of waiters only once it has a connection for it.
func releaseTellsOfWaiters(p *pair) {
	for start := time.Now(); ; pause() {
		c, waits := claim("k", long), claim("k", long)
		waits.Waits = true
		p.acquire(p.a, c)
		for waits.Tries = range 3 {
			p.refused(p.b, waits)
		}
		if p.release(p.a, c) > 0 {
			return
		}
		if time.Since(start) > patience {
			fail("Release returns 0 while another instance waits, want how many do, or 1 if that cannot be known")
		}
	}
}

// abandon gives c up on p.a, which must not wait for anything.
func (p *pair) abandon(c *guard.Claim) {
	c.Unclear = true
	start := time.Now()
	p.a.Abandon(c)
	if took := time.Since(start); took > time.Second/2 {
		fail("Abandon took %v, want it not to wait", took)
	}
}

func abandonFrees(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	p.abandon(c)
	next := p.eventually(p.b, "k", long)
	if err := p.a.Close(p.ctx); err != nil { // waits for all that Abandon began
		fail("Close: %v", err)
	}
	if err := p.renew(p.b, next); err != nil {
		fail("Renew by the owner that came after an abandoned claim: %v, want success", err)
	}
}

// abandonFreesAgain sends the late request itself, in good time before the second attempt to free the key is due. On a
// machine that stalls just then, it starts over.
func abandonFreesAgain(p *pair) {
	for range 10 {
		c := claim("k", long)
		p.acquire(p.a, c)
		start := time.Now()
		p.abandon(c)
		p.release(p.b, p.eventually(p.b, "k", long))
		p.acquire(p.b, c)
		if time.Since(start) < time.Second/2 {
			p.eventually(p.b, "k", long)
			return
		}
		p.release(p.b, c)
	}
	fail("too slow to tell: a few calls take more than half a second")
}

func abandonComparesOwner(p *pair) {
	c := claim("k", long)
	p.acquire(p.b, c)
	p.abandon(claim("k", long))
	p.abandon(resembling(c))
	if err := p.a.Close(p.ctx); err != nil {
		fail("Close: %v", err)
	}
	p.refused(p.b, claim("k", long))
	if err := p.renew(p.b, c); err != nil {
		fail("Renew by the owner, after others were abandoned: %v, want success", err)
	}
}

package lockercheck

import (
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The fate of a lease whose TTL has ended while nobody else took its key.
var ended = []Check{
	{"a lease that has ended is not renewed, though nobody took its key", "Locker.Renew", endedIsNotRenewed},
	{"a lease that has ended gets no tokens and is not released", "Locker.Fence, Locker.Release", endedIsLost},
}

// outlived returns a claim on p.a whose TTL has ended.
func (p *pair) outlived(key string) *locker.Claim {
	c := fencedClaim(key, short)
	p.acquire(p.a, c)
	time.Sleep(2*short + p.can.Limits.LateForOthers)
	return c
}

func endedIsNotRenewed(p *pair) {
	c := p.outlived("k")
	wantLost("Renew after the TTL, when nobody took the key", p.renew(p.a, c))
	p.free("k")
}

func endedIsLost(p *pair) {
	c := p.outlived("k")
	p.wantFenceLost("Fence after the TTL, when nobody took the key", p.a, c)
	p.wantReleaseLost("Release after the TTL, when nobody took the key", p.a, c)
	p.free("k")
}

package lockercheck

import (
	"math"

	"github.com/go-lockguard/guard/locker"
)

var fencing = []Check{
	{"fencing tokens rise from grant to grant", "Locker.Acquire, Locker.Fence", tokensRise},
	{"blocks of fencing tokens do not overlap", "Locker.Fence", blocksApart},
	{"fencing tokens rise from hand-over to hand-over", "Locker.Release, Locker.Fence", tokensRiseHandedOver},
	{
		"fencing tokens rise while the clock of the store stands",
		"Locker.Acquire, Locker.Release, Locker.Fence", tokensRiseByCount,
	},
	{"only the owner gets fencing tokens", "Locker.Fence", fenceComparesOwner},
}

// tokensRise follows one key through releases, an expiry, and an owner that
// acquires twice.
func tokensRise(p *pair) {
	var last uint64
	rises := func(how string, token uint64) {
		switch {
		case token == 0:
			fail("the token of a grant after %s is 0, want 1 or more: a token is never 0", how)
		case token <= last:
			fail("the token of a grant after %s is %d, want more than %d, the last of "+
				"the block before", how, token, last)
		}
		last = token + locker.FenceBlock - 1
		if last > math.MaxInt64 {
			fail("token %d does not fit the signed columns of a database", last)
		}
	}

	for _, s := range []*side{p.a, p.b, p.b, p.a} {
		c := fencedClaim("k", long)
		rises("a release", p.acquire(s, c))
		p.release(s, c, nil)
	}

	rises("a release", p.acquire(p.a, fencedClaim("k", short)))
	p.release(p.b, p.eventually(p.b, "k", long), nil)
	c := fencedClaim("k", long)
	rises("an expiry", p.acquire(p.b, c))

	if again := p.acquire(p.b, c); again > last {
		last = again + locker.FenceBlock - 1
	} else if again <= last-locker.FenceBlock {
		fail("an owner that acquires again gets token %d, want its block, from %d, or a new one", again,
			last+1-locker.FenceBlock)
	}
	p.release(p.b, c, nil)
	rises("an owner that acquired twice", p.acquire(p.a, fencedClaim("k", long)))
}

// tokensRiseHandedOver hands a key to and fro. Every second owner takes another
// block. The others take none.
func tokensRiseHandedOver(p *pair) {
	p.rounds(func(key string) error {
		owner, next := fencedClaim(key, long), fencedClaim(key, long)
		from, to := p.a, p.b
		last := p.acquire(from, owner)
		for n := range 6 {
			if err := p.wait(to, next); err != nil {
				return err
			}
			g, err := p.handOver(from, owner, to, next)
			if err != nil {
				return err
			}
			if g.Token < last+locker.FenceBlock {
				fail("the token of a hand-over is %d, want at least %d", g.Token, last+locker.FenceBlock)
			}
			last = g.Token
			if n%2 == 0 {
				if last, err = to.Fence(p.ctx, next); err != nil || last < g.Token+locker.FenceBlock {
					fail("Fence after a hand-over: %d, %v, want at least %d", last, err, g.Token+locker.FenceBlock)
				}
			}
			owner, next = next, fencedClaim(key, long)
			from, to = to, from
		}
		return nil
	})
}

// blocksApart takes more blocks in one grant than time alone could keep apart.
func blocksApart(p *pair) {
	c := fencedClaim("k", long)
	last := p.acquire(p.a, c) + locker.FenceBlock - 1
	for range 20 {
		token, err := p.a.Fence(p.ctx, c)
		if err != nil {
			fail("Fence by the owner: %v, want success", err)
		}
		if token <= last {
			fail("a block of tokens begins at %d, inside or below the one that ends at %d", token, last)
		}
		last = token + locker.FenceBlock - 1
	}

	unfenced := claim("unfenced", long)
	p.acquire(p.a, unfenced)
	if token, err := p.a.Fence(p.ctx, unfenced); err != nil || token == 0 {
		fail("Fence by an owner that acquired without fencing: %d, %v, want a token", token, err)
	}
}

// tokensRiseByCount takes a block of tokens in each way, without a pause
// between them. In virtual time the clock stands still meanwhile. So it finds a
// store which leaves the distance of two blocks to its clock. On a real clock
// this check shows little, because some microseconds pass between two requests.
func tokensRiseByCount(p *pair) {
	last := uint64(0)
	for range 3 {
		c, next := claim("k", long), fencedClaim("k", long)
		p.comes(p.a, c, locker.Try{})
		for range 2 {
			token, err := p.a.Fence(p.ctx, c)
			if err != nil {
				fail("Fence by the owner: %v, want success", err)
			}
			last = above(last, "Fence", token)
		}
		p.try(p.b, next, locker.Try{Wait: true})
		p.release(p.a, c, nil)
		if g, ok := p.b.ear.granted(next); ok {
			last = above(last, "Granted", g.Token)
		}
		if a := p.try(p.b, next, locker.Try{Wait: true, Queued: true}); a.Acquired && a.Token > last {
			last = a.Token + locker.FenceBlock - 1 // otherwise it got its own block once more
		}
		p.b.giveUp(next, locker.End{}, false)
	}
}

// above returns the last token of the block that begins at token.
func above(last uint64, how string, token uint64) uint64 {
	if token <= last {
		fail("the block of tokens of %s begins at %d, want more than %d, the last of "+
			"the block before", how, token, last)
	}
	return token + locker.FenceBlock - 1
}

func (p *pair) wantFenceLost(what string, s *side, c *locker.Claim) {
	wantLost(what, heard(func() error {
		_, err := s.Fence(p.ctx, c)
		return err
	}))
}

func fenceComparesOwner(p *pair) {
	nobodys := claim("nobody's", long)
	p.wantFenceLost("Fence of a key that nobody holds", p.a, nobodys)
	p.free(nobodys.Key)

	old := fencedClaim("k", short)
	p.acquire(p.a, old)
	next := p.eventually(p.b, "k", long)
	for _, s := range []*side{p.a, p.b} {
		p.wantFenceLost("Fence by the owner before", s, old)
		p.wantFenceLost("Fence by an owner with almost the same id", s, resembling(next))
	}
	p.owns(p.b, next)
}

package lockercheck

import (
	"github.com/go-lockguard/guard/locker"
)

var release = []Check{
	{"a release compares the owner", "Locker.Release", releaseComparesOwner},
	{"a release after expiry leaves the new owner alone", "Locker.Release", releaseAfterExpiry},
	{"a key is released once", "Locker.Release", releaseOnce},
}

func (p *pair) wantReleaseLost(what string, s *side, c *locker.Claim) {
	wantLost(what, heard(func() error {
		_, err := s.Release(p.ctx, c, locker.End{})
		return err
	}))
}

func releaseComparesOwner(p *pair) {
	c := claim("k", long)
	p.wantReleaseLost("Release of a key that nobody holds", p.a, c)
	p.acquire(p.a, c)
	for _, s := range []*side{p.a, p.b} {
		p.wantReleaseLost("Release by another owner", s, claim("k", long))
		p.wantReleaseLost("Release by an owner with almost the same id", s, resembling(c))
	}
	p.owns(p.a, c)
}

func releaseAfterExpiry(p *pair) {
	old := claim("k", short)
	p.acquire(p.a, old)
	next := p.eventually(p.b, "k", long)
	p.wantReleaseLost("Release after expiry, when another owns the key", p.a, old)
	p.owns(p.b, next)
	p.release(p.b, next, nil)
	p.wantReleaseLost("Release after expiry, when nobody owns the key", p.a, old)
}

func releaseOnce(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	p.release(p.a, c, nil)
	p.wantReleaseLost("the second Release", p.a, c)

	next := claim("k", long)
	p.acquire(p.a, next)
	p.wantReleaseLost("the third Release, when another owns the key", p.a, c)
	p.owns(p.a, next)
}

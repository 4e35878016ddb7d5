package lockercheck

import (
	"strconv"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var renewal = []Check{
	{"a renewal gives the full TTL again", "Locker.Renew", renewsFully},
	{"a renewal never creates a key", "Locker.Renew", renewCreatesNothing},
	{"a renewal compares the owner", "Locker.Renew", renewComparesOwner},
	{"each claim has its own answer from one renewal", "Locker.Renew", renewsEach},
}

func renewsFully(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	for range 2 {
		time.Sleep(short)
		sent := time.Now()
		if err := p.renew(p.a, c); err != nil {
			fail("Renew by the owner: %v, want success", err)
		}
		p.hasFullTTL("k", long, sent)
	}
}

func renewCreatesNothing(p *pair) {
	never, released, expired := claim("never", long), claim("released", long), claim("expired", short)
	p.acquire(p.a, released)
	p.release(p.a, released, nil)
	p.acquire(p.a, expired)
	p.release(p.b, p.eventually(p.b, "expired", long), nil)

	for _, c := range []*locker.Claim{never, released, expired} {
		wantLost("Renew of a key that nobody holds ("+c.Key+")", p.renew(p.a, c))
		p.free(c.Key)
	}
}

func renewComparesOwner(p *pair) {
	const ttl = long / 2
	c := claim("k", ttl)
	p.acquire(p.a, c)
	for _, s := range []*side{p.a, p.b} {
		wantLost("Renew by another owner", p.renew(s, claim("k", long)))
		stranger := resembling(c)
		stranger.TTL = long
		wantLost("Renew by an owner with almost the same id", p.renew(s, stranger))
	}
	if left := p.refused(p.b, claim("k", ttl)).Remaining; left > ttl {
		fail("the lease has %v left after renewals by others, want at most its TTL, %v", left, ttl)
	}
	p.owns(p.a, c)
}

func renewsEach(p *pair) {
	p.renewAll(p.a, nil)

	// Every third key is free and every third belongs to another, so that live
	// claims stand before and behind.
	var cs []*locker.Claim
	for i := range 12 {
		c := claim("k"+strconv.Itoa(i), long)
		switch i % 3 {
		case 0:
			p.acquire(p.a, c)
		case 1:
			p.acquire(p.b, claim(c.Key, long))
		}
		cs = append(cs, c)
	}
	time.Sleep(short)
	sent := time.Now()
	for i, err := range p.renewEach(p.a, cs) {
		switch {
		case i%3 != 0:
			wantLost("Renew of a claim that is lost, beside live ones", err)
		case err != nil:
			fail("Renew of a live claim beside lost ones: %v, want success", err)
		default:
			p.hasFullTTL(cs[i].Key, long, sent)
		}
	}
}

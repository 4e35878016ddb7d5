package lockertest

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/go-lockguard/guard"
)

const (
	// short is the TTL of a lease that a check waits out.
	short = 200 * time.Millisecond

	// long is the TTL of a lease that must not expire during a check, on whatever machine.
	long = 40 * time.Second

	// patience bounds the wait for what must happen, and is less than long: waiting for the TTL is no way to pass.
	patience = 20 * time.Second

	// rounding is how much of a TTL a store may lose by keeping whole milliseconds.
	rounding = 2 * time.Millisecond
)

// pair is what a check works on: two open lockers on one store. Its methods end the check if what they say does not hold.
type pair struct {
	ctx  context.Context
	a, b guard.Locker
}

// self is who the contenders of this suite are.
var self = guard.Holder{
	Host:  "näme \"quoted\"\n",
	PID:   4711,
	Since: time.Date(2024, 2, 29, 23, 59, 59, 123_000_000, time.UTC),
	Name:  "lockertest: {1}",

	Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}

// claim makes a claim with an owner of its own.
func claim(key string, ttl time.Duration) *guard.Claim {
	return &guard.Claim{Key: key, Owner: rand.Text()[:guard.OwnerLen], TTL: ttl, Holder: self}
}

// fencedClaim is claim with Fencing.
func fencedClaim(key string, ttl time.Duration) *guard.Claim {
	c := claim(key, ttl)
	c.Fencing = true
	return c
}

// acquire acquires c, which must succeed, and returns the fencing token, 0 without Fencing.
func (p *pair) acquire(l guard.Locker, c *guard.Claim) uint64 {
	token, err := l.Acquire(p.ctx, c)
	if err != nil {
		fail("Acquire of %.40q: %v, want success", c.Key, err)
	}
	if !c.Fencing {
		return 0
	}
	return token
}

// refused tries to acquire c, which must find the key held.
func (p *pair) refused(l guard.Locker, c *guard.Claim) *guard.HeldError {
	var held *guard.HeldError
	if _, err := l.Acquire(p.ctx, c); !errors.As(err, &held) {
		fail("Acquire of %.40q, held by another owner: %v, want a *HeldError", c.Key, err)
	}
	return held
}

// release releases c, which must succeed, and returns how many instances wait.
func (p *pair) release(l guard.Locker, c *guard.Claim) (waiting int) {
	c.Waits = false // nobody of this instance waits behind it
	freed, err := l.Release(p.ctx, c)
	if err != nil {
		fail("Release of %.40q by its owner: %v, want success", c.Key, err)
	}
	return freed.Waiting
}

// renew renews one claim and returns its error.
func (p *pair) renew(l guard.Locker, c *guard.Claim) error {
	return p.renewAll(l, []*guard.Claim{c})[0]
}

func (p *pair) renewAll(l guard.Locker, cs []*guard.Claim) []error {
	errs := l.Renew(p.ctx, cs)
	if len(errs) != len(cs) {
		fail("Renew of %d claims returned %d errors", len(cs), len(errs))
	}
	return errs
}

// owns checks that c owns its key, from both sides: others are refused, and the owner can renew.
func (p *pair) owns(l guard.Locker, c *guard.Claim) {
	p.refused(p.a, claim(c.Key, long))
	p.refused(p.b, claim(c.Key, long))
	if err := p.renew(l, c); err != nil {
		fail("Renew of %.40q by its owner: %v, want success", c.Key, err)
	}
}

// free checks that nobody owns key.
func (p *pair) free(key string) {
	c := claim(key, long)
	p.acquire(p.b, c)
	p.release(p.b, c)
}

// hasFullTTL checks that key, acquired or renewed by a request sent no earlier than sent, has all of ttl from there.
func (p *pair) hasFullTTL(key string, ttl time.Duration, sent time.Time) {
	remaining := p.refused(p.b, claim(key, ttl)).Remaining
	if least := ttl - time.Since(sent) - rounding; remaining < least || remaining > ttl {
		fail("the lease has %v of its TTL left, want %v to %v", remaining, least, ttl)
	}
}

// eventually acquires a claim on key as soon as it is free, which must not take as long as a lease.
func (p *pair) eventually(l guard.Locker, key string, ttl time.Duration) *guard.Claim {
	c := claim(key, ttl)
	for start := time.Now(); ; pause() {
		_, err := l.Acquire(p.ctx, c)
		if err == nil {
			return c
		}
		if time.Since(start) > patience {
			fail("Acquire of %.40q after %v: %v, want the key to be free by now", key, patience, err)
		}
		c.Tries++
	}
}

// pause is the time between two looks at the same thing.
func pause() { time.Sleep(2 * time.Millisecond) }

// wantLost checks that what answered ErrLeaseLost.
func wantLost(what string, err error) {
	if !errors.Is(err, guard.ErrLeaseLost) {
		fail("%s: %v, want ErrLeaseLost", what, err)
	}
}

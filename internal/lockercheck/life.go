package lockercheck

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var life = []Check{
	{"a call ends when its ctx has ended, and tells no lie", "Locker, law 8", endedContext},
	{"a healthy store passes Check", "Locker.Check", healthy},
	{"a locker is opened once", "Locker.Open", opensOnce},
	{"a closed locker answers ErrClosed", "Locker.Close", closes},
}

// endedContext allows each call to have done its work, or not to know. It does
// not allow an answer for a store that the call did not ask.
func endedContext(p *pair) {
	cancelled, cancel := context.WithCancel(p.ctx)
	cancel()
	expired, cancel := context.WithDeadline(p.ctx, time.Now().Add(-time.Second))
	defer cancel()

	for i, ctx := range []context.Context{cancelled, expired} {
		tried, owned := claim([]string{"k1", "k2"}[i], long), claim([]string{"k3", "k4"}[i], long)
		p.acquire(p.a, owned)

		promptly("Acquire", func() error { _, err := p.a.Acquire(ctx, tried, locker.Try{}); return err })
		promptly("Renew", func() (err error) {
			p.a.Renew(ctx, []*locker.Claim{owned}, func(_ int, e error) { err = e })
			return err
		})
		promptly("Fence", func() error { _, err := p.a.Fence(ctx, owned); return err })
		p.owns(p.a, owned)
		promptly("Release", func() error { _, err := p.a.Release(ctx, owned, locker.End{}); return err })

		p.a.giveUp(tried, locker.End{}, true)
		p.a.giveUp(owned, locker.End{}, true)
		p.eventually(p.b, tried.Key, long)
		p.eventually(p.b, owned.Key, long)
	}
}

// promptly runs a call whose ctx has ended. With a live ctx the call would
// succeed.
func promptly(what string, call func() error) {
	start := time.Now()
	err := call()
	if took := time.Since(start); took > patience/4 {
		fail("%s took %v after its ctx had ended", what, took)
	}
	if errors.Is(err, locker.ErrLeaseLost) || errors.Is(err, locker.ErrClosed) {
		fail("%s with a ctx that has ended: %v, want success or ErrUnavailable", what, err)
	}
}

func healthy(p *pair) {
	for _, s := range []*side{p.a, p.b} {
		var found []locker.Finding
		var err error
		passes := func() bool {
			found, err = locker.Findings(s.Check(p.ctx, long))
			return err == nil && !slices.ContainsFunc(found,
				func(f locker.Finding) bool { return f.Severity == locker.Refuse })
		}
		if !comesTrue(patience, passes) { // on a slow machine each server seems far away
			fail("Check: %v, %v, want success, if with warnings", found, err)
		}
	}
}

func opensOnce(p *pair) {
	wantInvalid := func(what string, err error) {
		if !errors.Is(err, locker.ErrInvalidOption) {
			fail("%s: %v, want ErrInvalidOption", what, err)
		}
	}
	wantInvalid("the second Open", p.a.Open(newEar()))
	p.free("k") // the locker still works
	p.closed(p.a)
	wantInvalid("Open after Close", p.a.Open(newEar()))
}

func closes(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	p.closed(p.a)
	p.closed(p.a)

	for what, err := range p.closedAnswers(c) {
		if !errors.Is(err, locker.ErrClosed) {
			fail("%s after Close: %v, want ErrClosed", what, err)
		}
	}
	// a lease outlives its locker, because its holder may still be at work
	if p.try(p.b, claim("k", long), locker.Try{}).Acquired {
		fail("Close freed a key that is owned, want it left to its TTL")
	}
	p.free("k2")
}

// closedAnswers calls each method that p.a can do after its Close. c owns its
// key.
func (p *pair) closedAnswers(c *locker.Claim) map[string]error {
	errs := map[string]error{"Renew": p.renew(p.a, c), "Check": p.a.Check(p.ctx, long)}
	_, errs["Acquire"] = p.a.Acquire(p.ctx, claim("k2", long), locker.Try{Wait: true})
	_, errs["Fence"] = p.a.Fence(p.ctx, c)
	_, errs["Release"] = p.a.Release(p.ctx, c, locker.End{})
	if p.can.Inspects {
		_, errs["Inspect"] = p.a.Inspect(p.ctx, c.Key)
		errs["List"], errs["ForceRelease"] = nil, p.a.ForceRelease(p.ctx, c.Key, c.Owner)
		for _, err := range p.a.List(p.ctx) {
			errs["List"] = err
		}
	}
	if p.can.Several {
		_, _, errs["AcquireAll"] = p.a.AcquireAll(p.ctx, claims("k3", 2), false)
		errs["ReleaseAll"] = p.releaseAll(p.a, []*locker.Claim{c}, []*locker.Claim{nil})[0].err
	}
	if p.can.Records {
		_, errs["Begin"] = p.a.Begin(p.ctx, c, locker.Record{Value: "mark", TTL: long})
		_, errs["Forget"] = p.a.Forget(p.ctx, c.Key)
	}
	return errs
}

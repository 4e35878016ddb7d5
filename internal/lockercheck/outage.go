package lockercheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// FaultyCheck is one promise of a [locker.Locker] whose store gives no answer.
type FaultyCheck struct {
	Name string // the promise

	check Check
}

// FaultyChecks returns all of these checks.
func FaultyChecks() []FaultyCheck {
	all := make([]FaultyCheck, len(outage))
	for i, c := range outage {
		all[i] = FaultyCheck{c.Name, c}
	}
	return all
}

// Test is like [Check.Test]. The store is mended when it returns.
func (c FaultyCheck) Test(a, b locker.Locker, breakStore func() (mend func())) error {
	return c.check.on(&pair{a: newSide("a", a), b: newSide("b", b), breakStore: breakStore})
}

var outage = []Check{
	{"every call ends with its ctx, though the store gives no answer", "Locker", endsWithContext},
	{"no answer is ErrUnavailable", "Locker, law 8", saysUnavailable},
	{"what was given up in an outage is freed after it", "Locker.Release, End.Queued", givenUpSurvivesOutage},
	{"a share that was given up in an outage is freed alone", "law 9", givenUpShareAlone},
	{"Close ends with its ctx, though the store gives no answer", "Locker.Close", closesInOutage},
	{"a record without an answer is kept before the key is freed", "law 11", keepsBeforeFree},
	{"a mark without an answer is removed", "law 12", unmarksAfterOutage},
	{"after an outage the store serves as before", "Waker.WakeAll, law 4", servesAfterOutage},
	{"who listens hears of what came in an outage", "Locker.Listens, Waker.WakeAll", hearsAfterOutage},
}

// brief is how long a call may take while the store gives no answer.
const brief = 300 * time.Millisecond

// broken runs during while the store is broken. Then it waits until the store
// answers again.
func (p *pair) broken(during func()) {
	func() {
		mend := p.breakStore()
		defer mend()
		during()
	}()
	for _, s := range []*side{p.a, p.b} {
		p.answered(s)
	}
}

// answered waits until s has an answer again. A store may need a moment after
// an outage, and so may connections.
func (p *pair) answered(s *side) {
	for start := time.Now(); ; pause() {
		c := claim("answered", long)
		_, err := s.Acquire(p.ctx, c, locker.Try{})
		s.giveUp(c, locker.End{}, false)
		switch {
		case err == nil, errors.Is(err, locker.ErrClosed):
			return
		case time.Since(start) > patience:
			fail("Acquire %v after an outage: %v, want an answer", patience, err)
		}
	}
}

// within calls call with a ctx that ends in brief. It returns how long the call
// took beyond that.
func (p *pair) within(call func(ctx context.Context) error) (late time.Duration, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, brief)
	defer cancel()
	start := time.Now()
	err = call(ctx)
	return time.Since(start) - brief, err
}

// deed is a call that needs an answer of the store.
type deed struct {
	name string
	call func(ctx context.Context) error
}

var errForgotten = errors.New("Answer.Queued is false for a claim that was in the queue before")

// deeds returns every call there is, for claims that p.a owns or waits with.
func (p *pair) deeds() []deed {
	owned, released, queued := claim("owned", long), claim("released", long), claim("queued", long)
	p.acquire(p.a, owned)
	p.acquire(p.a, released)
	p.acquire(p.b, claim("queued", long))
	acquire := func(c *locker.Claim, t locker.Try) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := p.a.Acquire(ctx, c, t)
			return err
		}
	}
	seen := time.Now()
	p.try(p.a, queued, locker.Try{Wait: true})
	all := []deed{
		{"Acquire with Try.Queued", func(ctx context.Context) error { // the first, before the claim leaves the queue
			a, err := p.a.Acquire(ctx, queued, locker.Try{Wait: true, Queued: true})
			switch {
			case a.Queued:
				return err
			case time.Since(seen) > locker.QueueLife:
				return locker.ErrUnavailable // it needs no answer
			}
			return errors.Join(errForgotten, err)
		}},
		{"Acquire", acquire(claim("free", long), locker.Try{})},
		{"Acquire with Try.Wait", acquire(claim("waited", long), locker.Try{Wait: true})},
		{"Renew", func(ctx context.Context) (err error) {
			p.a.Renew(ctx, []*locker.Claim{owned}, func(_ int, e error) { err = e })
			return err
		}},
		{"Fence", func(ctx context.Context) error { _, err := p.a.Fence(ctx, owned); return err }},
		{"Release", func(ctx context.Context) error {
			_, err := p.a.Release(ctx, released, locker.End{Next: claim("released", long)})
			return err
		}},
		{"Check", func(ctx context.Context) error { return p.a.Check(ctx, long) }},
	}
	if p.can.Shares {
		share := permit("shared", 2, long)
		p.acquire(p.a, share)
		all = append(all,
			deed{"Acquire of a share", acquire(permit("shared", 2, long), locker.Try{})},
			deed{"Acquire of a share with Try.Wait", acquire(permit("shared", 2, long), locker.Try{Wait: true})},
			deed{"Release of a share", func(ctx context.Context) error {
				_, err := p.a.Release(ctx, share, locker.End{})
				return err
			}},
		)
	}
	if p.can.Records {
		kept, marked := recalling("kept", long), recalling("marked", long)
		p.acquire(p.a, kept)
		p.acquire(p.a, marked)
		all = append(all,
			deed{"Acquire by a claim that recalls", acquire(recalling("free", long), locker.Try{Wait: true})},
			deed{"Release with a record", func(ctx context.Context) error {
				_, err := p.a.Release(ctx, kept, locker.End{Record: locker.Record{Value: "one", TTL: long}})
				return err
			}},
			deed{"Forget", func(ctx context.Context) error { _, err := p.a.Forget(ctx, "free"); return err }},
			deed{"Begin", func(ctx context.Context) error {
				_, err := p.a.Begin(ctx, marked, locker.Record{Value: "mark", TTL: long})
				return err
			}},
		)
	}
	if p.can.Inspects {
		all = append(all,
			deed{"Inspect", func(ctx context.Context) error { _, err := p.a.Inspect(ctx, "owned"); return err }},
			deed{"List", func(ctx context.Context) (err error) {
				for _, e := range p.a.List(ctx) {
					err = errors.Join(err, e)
				}
				return err
			}},
			deed{"ForceRelease", func(ctx context.Context) error {
				return p.a.ForceRelease(ctx, "owned", owned.Owner)
			}},
		)
	}
	return all
}

func endsWithContext(p *pair) {
	deeds := p.deeds()
	p.broken(func() {
		for _, d := range deeds {
			if late, _ := p.within(d.call); late > patience/4 {
				fail("%s ended %v after its ctx, while the store gave no answer", d.name, late)
			}
		}
	})
}

func saysUnavailable(p *pair) {
	deeds := p.deeds()
	p.broken(func() {
		for _, d := range deeds {
			switch _, err := p.within(d.call); {
			case errors.Is(err, errForgotten):
				fail("%s without an answer: %w; it may be there still", d.name, errForgotten)
			case !errors.Is(err, locker.ErrUnavailable), errors.Is(err, locker.ErrLeaseLost):
				fail("%s without an answer: %v, want ErrUnavailable", d.name, err)
			}
		}
	})
}

// givenUpSurvivesOutage gives up an owner, a claim in the queue, and one whose
// Acquire had no answer.
func givenUpSurvivesOutage(p *pair) {
	owned, queued, unclear := claim("owned", long), claim("queued", long), claim("unclear", long)
	holder := claim("queued", long)
	p.acquire(p.a, owned)
	p.acquire(p.b, holder)
	p.try(p.a, queued, locker.Try{Wait: true})
	p.broken(func() {
		_, _ = p.within(func(ctx context.Context) error {
			_, err := p.a.Acquire(ctx, unclear, locker.Try{})
			return err
		})
		p.a.giveUp(unclear, locker.End{}, true)
		for _, c := range []*locker.Claim{owned, queued} {
			p.a.giveUp(c, locker.End{}, false)
		}
		time.Sleep(2 * short) // by then the first attempt has failed
	})
	p.eventually(p.b, "owned", long)
	p.closed(p.a)
	if r := p.release(p.b, holder, nil); r.Handed {
		fail("the claim in the queue that was given up in an outage was handed its key after it")
	}
	for _, key := range []string{"queued", "unclear"} {
		p.eventually(p.b, key, long)
	}
}

// givenUpShareAlone gives up one of two shares. A third claim gets its place,
// and the other share is owned as before.
func givenUpShareAlone(p *pair) {
	p.sharers()
	gone, stays := permit("k", 2, long), permit("k", 2, long)
	p.acquire(p.a, gone)
	p.acquire(p.b, stays)
	p.broken(func() {
		p.a.giveUp(gone, locker.End{}, false)
		time.Sleep(2 * short) // by then the first attempt has failed
	})
	p.comes(p.b, permit("k", 2, long), locker.Try{})
	if err := p.renew(p.b, stays); err != nil {
		fail("Renew of a share, after another share of its key was given up in an outage: %v, want success", err)
	}
	p.refused(p.a, permit("k", 2, long))
}

func closesInOutage(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	p.broken(func() {
		p.a.giveUp(c, locker.End{}, false)
		switch late, err := p.within(p.a.Close); {
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			fail("Close while the store gives no answer: %v, want nil or its ctx's error", err)
		case late > patience/4:
			fail("Close ended %v after its ctx, while the store gave no answer", late)
		}
		if _, err := p.within(func(ctx context.Context) error {
			_, err := p.a.Fence(ctx, c)
			return err
		}); !errors.Is(err, locker.ErrClosed) {
			fail("Fence after a Close that may have run out of time: %v, want ErrClosed", err)
		}
	})
	p.closed(p.a)
}

// servesAfterOutage wants messages again too, such as those of a hand-over.
func servesAfterOutage(p *pair) {
	handsOver(p)
	p.broken(func() {
		for _, s := range []*side{p.a, p.b} {
			c := claim("k", long)
			_, _ = p.within(func(ctx context.Context) error {
				_, err := s.Acquire(ctx, c, locker.Try{})
				return err
			})
			s.giveUp(c, locker.End{}, true)
		}
	})
	p.eventually(p.b, "k", long)
	handsOver(p)
}

// keepsBeforeFree keeps a record in an outage, and gives up the claim then. The
// record is there as soon as the key is free.
func keepsBeforeFree(p *pair) {
	p.recorder(p.a)
	owner, e := recalling("k", long), locker.End{Record: locker.Record{Value: "one", TTL: long}}
	p.acquire(p.a, owner)
	p.broken(func() {
		late, err := p.within(func(ctx context.Context) error {
			_, err := p.a.Release(ctx, owner, e)
			return err
		})
		if err == nil {
			fail("Release with a record, without an answer, reports success, %v after its ctx", late)
		}
		p.a.giveUp(owner, e, true)
	})
	p.release(p.b, p.eventually(p.b, "k", long), nil)
	p.finds("k", "one")
}

// unmarksAfterOutage begins in an outage, and gives the claim up because nobody
// knows whether there is a mark. The mark is gone as soon as the key is free.
func unmarksAfterOutage(p *pair) {
	m := p.recorder(p.a)
	for _, before := range []bool{false, true} {
		key := fmt.Sprint("k", before)
		owner := recalling(key, long)
		p.acquire(p.a, owner)
		if before {
			p.begins(p.a, owner)
		}
		p.broken(func() {
			_, err := p.within(func(ctx context.Context) error {
				_, err := m.Begin(ctx, owner, mark)
				return err
			})
			if err == nil {
				fail("Begin without an answer reports success")
			}
			p.a.giveUp(owner, locker.End{Unmark: true}, true)
		})
		p.release(p.b, p.eventually(p.b, key, long), nil)
		p.finds(key, "")
	}
}

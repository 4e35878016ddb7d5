package lockercheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const (
	// short is the TTL of a lease that a check waits out.
	short = 200 * time.Millisecond

	// long is the TTL of a lease that must not expire during a check, on any
	// machine.
	long = 40 * time.Second

	// patience bounds the wait for an event that must come. It is less than
	// long, so that waiting for the TTL is no way to pass.
	patience = 20 * time.Second

	// someTries give the store and its messages time to catch up.
	someTries = 20

	// sameTries are how often a claim is tried before it is given up, because no
	// try has an answer.
	sameTries = 3

	// fewRounds are not enough to blame the store, however long they took.
	fewRounds = 5

	// rounding is the part of a TTL that a store may lose by keeping whole
	// milliseconds.
	rounding = 2 * time.Millisecond
)

// pair is the material of a check: two open lockers on one store. Its methods
// end the check if their comments do not hold.
type pair struct {
	ctx  context.Context
	a, b *side
	can  locker.Capabilities // of the store

	breakStore func() (mend func()) // nil, except in a FaultyCheck

	came  []arrival            // the claims of this round, in the order in which they first came
	seen  map[string]time.Time // when the last answer of try came, by owner
	freed time.Time            // when the last hand-over had its answer

	round   int           // the number of this round, for its keys
	hearing time.Duration // how long this round listens for a message that might not come
}

// side is one locker and its Waker.
type side struct {
	locker.Locker
	name   string
	ear    *ear
	closed bool
}

func newSide(name string, l locker.Locker) *side {
	s := &side{Locker: l, name: name, ear: newEar()}
	s.ear.janitor = lockerkit.NewJanitor(alone{l})
	return s
}

// alone releases one claim at a time.
type alone struct{ locker.Locker }

func (a alone) Capabilities() locker.Capabilities {
	can := a.Locker.Capabilities()
	can.Several = false
	return can
}

// giveUp gives c up as e says, in the background, as the guard does. late says
// that a request of c may yet arrive.
func (s *side) giveUp(c *locker.Claim, e locker.End, late bool) {
	s.ear.janitor.Add(lockerkit.Cleanup{Claim: c, End: e, Late: late})
}

// close closes s, as the guard does. It may close s a second time.
func (s *side) close(ctx context.Context) error {
	again := s.closed
	s.closed = true
	switch err := errors.Join(s.ear.janitor.Close(ctx), s.Close(ctx)); {
	case err == nil:
		return nil
	case again:
		return fmt.Errorf("a second Close: %w, want nil (it is idempotent)", err)
	default:
		return fmt.Errorf("Close: %w, want nil", err)
	}
}

// self is the holder that the contenders of this suite claim to be.
var self = locker.Holder{
	Host:  "näme \"quoted\"\n",
	PID:   4711,
	Since: time.Date(2024, 2, 29, 23, 59, 59, 123_000_000, time.UTC),
	Name:  "lockertest: {1}",

	Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}

// claim makes a claim with an owner of its own.
func claim(key string, ttl time.Duration) *locker.Claim {
	return &locker.Claim{Key: key, Owner: newOwner(), TTL: ttl, Holder: self}
}

func newOwner() string { return rand.Text()[:locker.OwnerLen] }

// fencedClaim is claim with Fencing.
func fencedClaim(key string, ttl time.Duration) *locker.Claim {
	c := claim(key, ttl)
	c.Fencing = true
	return c
}

// heard makes a request that must have an answer. On a busy machine an answer
// may come too late. Then heard does what the guard would do: it tries again.
func heard(request func() error) error {
	err := request()
	for start := time.Now(); errors.Is(err, locker.ErrUnavailable) && time.Since(start) < patience; err = request() {
		time.Sleep(short)
	}
	return err
}

// try tries to acquire c. It must have an answer. If there is none again and
// again, c is another claim from then on, as with the guard (law 8): redlock
// does not count a node again that may have a vote of its own.
func (p *pair) try(s *side, c *locker.Claim, t locker.Try) (a locker.Answer) {
	p.note(s, c)
	tries := 0
	err := heard(func() (err error) {
		if tries++; tries > sameTries && !t.Queued {
			if _, err := s.Release(p.ctx, c, locker.End{Queued: true}); errors.Is(err, locker.ErrUnavailable) {
				return err
			}
			old := *c
			*c = *s.anew(&old) // the locker reads nothing of a claim that has been released
		}
		a, err = s.Acquire(p.ctx, c, t)
		return err
	})
	p.seen[c.Owner] = time.Now()
	switch {
	case err != nil:
		fail("Acquire of %q: %v, want an answer", c.Key, err)
	case a.Acquired && (a.Queued || a.Place != 0):
		fail("Answer of an Acquire that succeeds: Queued %v, Place %d, want false and 0: who owns the key has "+
			"left the queue", a.Queued, a.Place)
	}
	return a
}

// again is try for a loop. A claim at which a slow machine did not look in time
// may have left the queue. c is another then.
func (p *pair) again(s *side, c *locker.Claim, t *locker.Try) locker.Answer {
	last, looked := p.seen[c.Owner]
	a := p.try(s, c, *t)
	unseen := looked && time.Since(last) > locker.LookEvery
	if unseen && t.Wait && !a.Acquired && !a.Queued && a.Record == "" {
		old := *c
		*c, t.Queued = *s.anew(&old), false
	}
	return a
}

// anew gives c up, and returns another claim in its place. From then on c
// belongs to the locker.
func (s *side) anew(c *locker.Claim) *locker.Claim {
	other := *c
	other.Owner, other.State = newOwner(), nil
	s.giveUp(c, locker.End{}, true)
	return &other
}

// comesTrue waits until so returns true. It tries for d, and then some more
// times, because the machine may have stood still meanwhile.
func comesTrue(d time.Duration, so func() bool) bool {
	for start, more := time.Now(), someTries; more > 0; pause() {
		if so() {
			return true
		}
		if time.Since(start) > d {
			more--
		}
	}
	return false
}

// lag is how long a process may read what another has changed already, see
// package rowlocker. In a store with a clock of its own that is over before a
// short lease would be. Servers without one agree as soon as a busy machine
// lets them.
func (p *pair) lag() time.Duration {
	if p.can.Limits.Late > 0 {
		return patience
	}
	return short / 2
}

// settled tries to acquire c until the answer is as wanted, for as long as the
// lag may be.
func (p *pair) settled(s *side, c *locker.Claim, t locker.Try, wanted func(locker.Answer) bool) (a locker.Answer) {
	owner := c.Owner
	tried := func() bool {
		a = p.again(s, c, &t)
		return wanted(a)
	}
	if !comesTrue(p.lag(), tried) && c.Owner != owner { // until the claim that was given up is gone
		comesTrue(patience, tried)
	}
	return a
}

func acquired(a locker.Answer) bool { return a.Acquired }

// acquire acquires c, which must succeed. It returns the fencing token, or 0
// without Fencing.
func (p *pair) acquire(s *side, c *locker.Claim) uint64 {
	a := p.settled(s, c, locker.Try{}, acquired)
	if !a.Acquired {
		fail("Acquire of %q, which nobody else owns: refused, want success; "+
			"the Answer's holder is Name %q, Instance %q (was a claim queued that was refused without Try.Wait?)",
			c.Key, a.Holder.Name, a.Holder.Instance)
	}
	if !c.Fencing {
		return 0
	}
	return a.Token
}

// refused tries to acquire c. It must find that another claim owns the key.
func (p *pair) refused(s *side, c *locker.Claim) locker.Answer {
	a := p.try(s, c, locker.Try{})
	if a.Acquired {
		fail("Acquire of %q, which another owns: acquired, want a refusal", c.Key)
	}
	return a
}

// release releases c, which must succeed.
func (p *pair) release(s *side, c, next *locker.Claim) locker.Released {
	if next != nil {
		p.note(s, next)
	}
	return p.end(s, c, locker.End{Next: next})
}

// end releases c as e says, which must succeed.
func (p *pair) end(s *side, c *locker.Claim, e locker.End) locker.Released {
	var r locker.Released
	again := false
	err := heard(func() (err error) {
		r, err = s.Release(p.ctx, c, e)
		if again && errors.Is(err, locker.ErrLeaseLost) { // by the request without an answer
			return nil
		}
		again = true
		return err
	})
	if err != nil {
		fail("Release of %q by its owner: %v, want success", c.Key, err)
	}
	return r
}

// renew renews one claim and returns its answer.
func (p *pair) renew(s *side, c *locker.Claim) error {
	return heard(func() error { return p.renewAll(s, []*locker.Claim{c})[0] })
}

// renewAll renews the claims and returns their answers. Each claim must have
// one answer when Renew returns.
func (p *pair) renewAll(s *side, cs []*locker.Claim) []error {
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, 2*len(cs)+1)
	s.Renew(p.ctx, cs, func(i int, err error) {
		select {
		case answers <- answer{i, err}:
		default: // there are too many already
		}
	})
	if got := len(answers); got != len(cs) {
		fail("Renew of %d claims called answered %d times, want once for each before it returns", len(cs), got)
	}
	errs, seen := make([]error, len(cs)), make([]bool, len(cs))
	for range cs {
		a := <-answers
		if a.i < 0 || a.i >= len(cs) || seen[a.i] {
			fail("Renew of %d claims called answered for claim %d, which is none of them or "+
				"had its answer", len(cs), a.i)
		}
		errs[a.i], seen[a.i] = a.err, true
	}
	return errs
}

// renewEach is renewAll for claims that must each have an answer of the store.
func (p *pair) renewEach(s *side, cs []*locker.Claim) []error {
	errs := p.renewAll(s, cs)
	for i, err := range errs {
		if errors.Is(err, locker.ErrUnavailable) {
			errs[i] = p.renew(s, cs[i])
		}
	}
	return errs
}

// owns checks from both sides that c owns its key. Others are refused, and the
// owner can renew.
func (p *pair) owns(s *side, c *locker.Claim) {
	p.refused(p.a, claim(c.Key, long))
	p.refused(p.b, claim(c.Key, long))
	if err := p.renew(s, c); err != nil {
		fail("Renew of %q by its owner: %v, want success", c.Key, err)
	}
}

// free checks that nobody owns key.
func (p *pair) free(key string) {
	c := claim(key, long)
	p.acquire(p.b, c)
	p.release(p.b, c, nil)
}

// hasFullTTL checks that key has all of ttl left, counted from sent. The
// request that acquired or renewed it was sent no earlier than that.
func (p *pair) hasFullTTL(key string, ttl time.Duration, sent time.Time) {
	remaining := p.refused(p.b, claim(key, ttl)).Remaining
	if least := ttl - time.Since(sent) - rounding; remaining != 0 && (remaining < least || remaining > ttl) {
		fail("the lease has %v of its TTL left, want %v to %v", remaining, least, ttl)
	}
}

// eventually acquires a claim on key as soon as it is free. That must not take
// as long as a lease.
func (p *pair) eventually(s *side, key string, ttl time.Duration) *locker.Claim {
	c := claim(key, ttl)
	p.comes(s, c, locker.Try{})
	return c
}

// comes tries to acquire c until that succeeds. It returns when the last
// request was sent.
func (p *pair) comes(s *side, c *locker.Claim, t locker.Try) (sent time.Time) {
	sent, ok := p.tries(s, c, t)
	if !ok {
		fail("Acquire of %q is refused after %v, want the key to be free by now; %s", c.Key, patience, p.saw(c.Key))
	}
	return sent
}

// tries is comes, but it reports whether it succeeded.
func (p *pair) tries(s *side, c *locker.Claim, t locker.Try) (sent time.Time, ok bool) {
	for start := time.Now(); time.Since(start) <= patience; pause() {
		sent = time.Now()
		if p.again(s, c, &t).Acquired {
			return sent, true
		}
		t.Held = true
	}
	return sent, false
}

// rounds repeats a check on keys of their own until a round returns nil. An
// error names what a round missed. A store may miss that while it cannot be
// told things yet, or because the machine was slow. A machine that is slow each
// time judges nothing.
func (p *pair) rounds(round func(key string) error) {
	start := time.Now()
	for n := 0; ; n++ {
		p.hearing = min(short<<min(n, 5), time.Second)
		p.came = nil // each round has its own keys, also in a second loop of one check
		err := round(fmt.Sprintf("k%d", p.round))
		p.round++
		if err == nil {
			return
		}
		if n >= fewRounds && time.Since(start) > 2*patience {
			if errors.Is(err, errTooSlow) {
				fail("%w: %w, in each of %d tries", ErrSkipped, err, n+1)
			}
			fail("%w, in each of %d tries", err, n+1)
		}
		pause()
	}
}

// needs ends the check as skipped if the store has not what is named.
func needs(has bool, what string) {
	if !has {
		fail("%w: Capabilities have no %s", ErrSkipped, what)
	}
}

// sleep waits, and returns errStood if the machine stood still meanwhile. What
// the store has sent before may have come that much later.
func sleep(d time.Duration) error {
	var stood time.Duration
	for end := time.Now().Add(d); time.Until(end) > 0; {
		start := time.Now()
		pause()
		stood += max(0, time.Since(start)-short/4)
	}
	if stood > 0 {
		return errStood
	}
	return nil
}

// orFail ends a round with slow, which says why a mistake is no proof. If slow
// is nil, orFail ends the check.
func orFail(slow error, format string, args ...any) error {
	if slow == nil {
		fail(format, args...)
	}
	return slow
}

// pause is the time between two looks at the same thing.
func pause() { time.Sleep(2 * time.Millisecond) }

// wantLost checks that what answered ErrLeaseLost.
func wantLost(what string, err error) {
	if !errors.Is(err, locker.ErrLeaseLost) {
		fail("%s: %v, want ErrLeaseLost", what, err)
	}
}

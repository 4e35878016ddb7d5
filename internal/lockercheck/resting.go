package lockercheck

import (
	"errors"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// A store that grants no rest passes these checks.
var resting = []Check{
	{"a rest is granted to who asks, and for no longer", "Answer.Rest", restsAsAsked},
	{"a claim that rests is served though nobody looks", "Answer.Rest, law 6", restIsServed},
	{"a claim that nobody sees when its rest is over leaves the queue", "Life", restEnds},
}

var errNoRest = errors.New("Answer.Rest is 0, and was not before")

// rests queues c, or looks at it, and asks for a rest.
func (p *pair) rests(s *side, c *locker.Claim, t locker.Try) (rest time.Duration, err error) {
	t.Wait = true
	a := p.try(s, c, t)
	switch {
	case !a.Queued:
		return 0, errNotQueued
	case a.Rest > t.Rest || a.Rest > locker.MaxRest || a.Rest < 0:
		fail("Answer.Rest is %v, want %v, or 0", a.Rest, min(t.Rest, locker.MaxRest))
	}
	return a.Rest, nil
}

func restsAsAsked(p *pair) {
	p.rounds(func(key string) error {
		if err := p.hear(key); err != nil {
			return err
		}
		c, next := claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		for n, asked := range []time.Duration{0, time.Second, time.Hour, 0, time.Second} {
			if _, err := p.rests(p.b, next, locker.Try{Queued: n > 0, Rest: asked}); err != nil {
				return err
			}
		}
		if a := p.try(p.b, claim(key, long), locker.Try{Rest: time.Second}); a.Rest != 0 {
			fail("Answer.Rest of a claim that is not in the queue is %v, want 0", a.Rest)
		}
		return nil
	})
}

func restIsServed(p *pair) {
	p.rounds(func(key string) error {
		if err := p.hear(key); err != nil {
			return err
		}
		c, next := claim(key, long), claim(key, long)
		p.acquire(p.a, c)
		rest, err := p.rests(p.b, next, locker.Try{Rest: locker.QueueLife + time.Second})
		if rest == 0 {
			return err
		}
		time.Sleep(locker.QueueLife + short)
		_, err = p.handOver(p.a, c, p.b, next)
		return err
	})
}

// restEnds leaves two claims alone. One rests. The other had a look that asked
// for no rest.
func restEnds(p *pair) {
	p.rounds(func(key string) error {
		if err := p.hear(key); err != nil {
			return err
		}
		c, other := claim(key, long), claim(key+" too", long)
		rests, rested := claim(key, long), claim(other.Key, long)
		p.acquire(p.a, c)
		p.acquire(p.a, other)
		rest, err := p.rests(p.b, rests, locker.Try{Rest: time.Second})
		if rest == 0 {
			return err
		}
		if longer, err := p.rests(p.b, rested, locker.Try{Rest: 2 * locker.QueueLife}); err != nil || longer == 0 {
			return errors.Join(err, errNoRest)
		}
		if _, err := p.rests(p.b, rested, locker.Try{Queued: true}); err != nil {
			return err
		}
		slow := sleep(locker.Life(rest) + short)
		if r := p.release(p.a, c, nil); r.Handed {
			return orFail(slow, "a claim was granted the key that nobody saw for more than its life of %v",
				locker.Life(rest))
		}
		if r := p.release(p.a, other, nil); r.Handed {
			return orFail(slow, "a claim was granted the key that nobody saw for more than %v since a look that "+
				"granted it no rest", locker.QueueLife)
		}
		return nil
	})
}

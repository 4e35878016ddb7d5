package lockercheck

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Errors that a round may end with, see pair.rounds.
var (
	errNotQueued   = errors.New("Answer.Queued is false for a claim that waits")
	errNotWanted   = errors.New("a holder is not told that another waits, neither by Wanted nor by its Release")
	errWantedOften = errors.New("a holder is told more than once of one claim that waits")
	errGranted     = errors.New("a claim that was given up was granted its key")
	errWoken       = errors.New("a claim that was handed its key was only told to try")
	errStood       = errors.New("the machine stood still, so how long something lasted cannot be told")
	errNotFreed    = errors.New("a grant that nobody knows keeps the key from others until its offer ends")
)

// freeEarly says that a claim could not wait for a key because the key was free
// already. That is no fault after its TTL.
func freeEarly(c *locker.Claim, since time.Time) error {
	if time.Since(since) > c.TTL {
		return errTooSlow
	}
	return fmt.Errorf("the key was free %v after Acquire, its TTL being %v", time.Since(since), c.TTL)
}

// counted checks Released.Waiting. A store that wakes by watching may not know
// the number. It then says 1.
func counted(r locker.Released, waiting int) error {
	if r.Waiting == waiting || r.Waiting == 1 && !r.Handed {
		return nil
	}
	return fmt.Errorf("Released.Waiting is %d, want %d: the claim that gets the key "+
		"counts, next does not", r.Waiting, waiting)
}

// left checks the number of waiting claims that Granted told, if g comes from a
// Granted.
func (g grant) left(waiting int) error {
	if g.times == 0 || g.Waiting == waiting {
		return nil
	}
	return fmt.Errorf("Granted tells that %d wait, want %d: those behind the claim that got the key, the releaser's "+
		"next among them",
		g.Waiting, waiting)
}

// look sees to c in the queue of a key that another claim owns. It puts c there
// if need be.
func (p *pair) look(s *side, c *locker.Claim, t locker.Try) (locker.Place, error) {
	t.Wait = true
	switch a := p.try(s, c, t); {
	case a.Acquired:
		fail("Acquire of %q, which another owns: acquired, want a place in the queue", c.Key)
	case a.Queued && a.Place == 0:
		fail("Answer.Place of a claim in the queue is 0, which is none")
	case a.Queued:
		return a.Place, nil
	}
	return 0, errNotQueued
}

// wait queues new claims one after another, with a pause between them for a
// clock that counts milliseconds.
func (p *pair) wait(s *side, cs ...*locker.Claim) error {
	for _, c := range cs {
		if _, err := p.look(s, c, locker.Try{}); err != nil {
			return err
		}
		pause()
	}
	return nil
}

// handOver releases c while next waits as the first in the queue. It then
// checks that next is served.
func (p *pair) handOver(from *side, c *locker.Claim, to *side, next *locker.Claim) (grant, error) {
	to.ear.wakened(c.Key)
	sent := time.Now()
	r := p.release(from, c, nil)
	p.freed = time.Now()
	return p.served(to, next, r, sent)
}

// served waits until c is told that it has its key, or that it should try. The
// message comes from a release that was sent at the given time. c must own the
// key then.
func (p *pair) served(s *side, c *locker.Claim, r locker.Released, sent time.Time) (g grant, err error) {
	g, woken, err := p.told(s, c, r)
	switch {
	case err != nil || woken:
		return g, err
	case p.renew(s, c) == nil:
		return g, nil
	case time.Since(sent) < g.Length-rounding:
		fail("a claim that was granted its key does not own it, %v after the release", time.Since(sent))
	}
	return g, fmt.Errorf("%s was granted its key and does not own it %v after the release, its offer being %v; %s",
		p.name(c), time.Since(sent), g.Length, p.saw(c.Key))
}

// unanswered stands for the answer of a call that frees a key and is no Release
// by its owner.
var unanswered = locker.Released{Waiting: -1}

// told waits until c is granted its key. If c is woken, told waits until c has
// acquired it.
func (p *pair) told(s *side, c *locker.Claim, r locker.Released) (g grant, woken bool, err error) {
	limit := p.hearing
	if r.Handed {
		// The offer has not ended by then, so a failure can name the actual
		// owner.
		limit = time.Second - short
	}
	for start := time.Now(); time.Since(start) < limit; pause() {
		if g, ok := s.ear.granted(c); ok {
			wantGrant(g, c)
			return g, false, nil
		}
		if s.ear.wakened(c.Key) {
			if a := p.try(s, c, locker.Try{Wait: true, Queued: true}); a.Acquired {
				return grant{key: c.Key, Offer: locker.Offer{Token: a.Token}}, true, nil
			}
		}
	}
	answered := ""
	if r != unanswered {
		answered = fmt.Sprintf("Release answered %+v; ", r)
	}
	return grant{}, false, fmt.Errorf("a key that is free is not told to who waits, %s; %s%s", p.name(c),
		answered, p.saw(c.Key))
}

func wantGrant(g grant, c *locker.Claim) {
	switch {
	case g.key != c.Key:
		fail("Granted tells of key %q to the owner of a claim on %q", g.key, c.Key)
	case g.Length != c.LongOffer() && g.Length != c.ShortOffer() && g.Length != 0:
		fail("Granted tells of an offer of %v, want %v, %v, or 0 if that is not known", g.Length,
			c.LongOffer(), c.ShortOffer())
	case c.Fencing != (g.Token != 0):
		fail("Granted tells token %d to a claim with Fencing %v", g.Token, c.Fencing)
	}
}

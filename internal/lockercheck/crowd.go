package lockercheck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var crowd = []Check{
	{"one contender at a time passes", "Locker.Acquire", oneAtATime},
	{"everybody who waits is served, one at a time", "laws 2, 4 and 7", servesCrowd},
}

// contender is one of many that want the same key.
type contender struct {
	*pair
	side    *side
	counter *atomic.Int64
}

const each, turns = 4, 8 // contenders on each side, and how often they pass

func oneAtATime(p *pair) { p.crowd(contender.barge) }

// servesCrowd lets every other contender wait for messages only, as long as
// they come. The others look slowly.
func servesCrowd(p *pair) { p.crowd(contender.queueUp) }

// crowd lets contenders on both sides add to a counter in two steps. Counts are
// lost unless the contenders take turns. The steps are atomic only to satisfy
// the race detector, which cannot see a lock on a server.
func (p *pair) crowd(pass func(contender, int) error) {
	var counter atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	q := &pair{ctx: ctx, a: p.a, b: p.b}
	errs := make(chan error, 2*each)
	for _, s := range []*side{p.a, p.b} {
		for i := range each {
			wg.Go(func() {
				err := caught(func() error { return pass(contender{q, s, &counter}, i) })
				errs <- err
				if err != nil {
					cancel() // only the first error counts
				}
			})
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			fail("%w", err)
		}
	}
	if got, want := counter.Load(), int64(2*each*turns); got != want {
		fail("%d sections counted to %d: some ran at the same time", want, got)
	}
}

func (c contender) section() {
	n := c.counter.Load()
	time.Sleep(100 * time.Microsecond)
	c.counter.Store(n + 1)
}

// barge tries again and again, and never waits.
func (c contender) barge(int) error {
	for range turns {
		mine := claim("k", long)
		for t := (locker.Try{}); ; t.Held = true {
			a, err := c.side.Acquire(c.ctx, mine, t)
			switch {
			case errors.Is(err, locker.ErrUnavailable) && c.ctx.Err() == nil:
				mine = c.side.anew(mine)
			case err != nil:
				return fmt.Errorf("Acquire of a contended key: %w", err)
			}
			if a.Acquired {
				break
			}
			pause()
		}
		c.section()
		if _, _, err := c.leave(mine, nil); err != nil {
			return err
		}
	}
	return nil
}

// queueUp waits for a message, and looks from time to time.
func (c contender) queueUp(i int) error {
	looks := locker.QueueLife / 8
	if i%2 == 0 {
		looks = locker.QueueLife / 2
	}
	mine, t := claim("k", long), locker.Try{Wait: true}
	for turn := range turns {
		owner, err := c.comesUp(mine, t, looks)
		if err != nil {
			return fmt.Errorf("a contended key: %w", err)
		}
		c.section()
		var next *locker.Claim
		if turn+1 < turns {
			next = claim("k", long)
		}
		next, r, err := c.leave(owner, next)
		if err != nil {
			return err
		}
		mine, t = next, locker.Try{Wait: true, Queued: r.Queued, Place: r.Place}
	}
	return nil
}

// leave releases mine, and returns next. If that has no answer, both are given
// up, and leave returns another claim in place of next.
func (c contender) leave(mine, next *locker.Claim) (*locker.Claim, locker.Released, error) {
	r, err := c.side.Release(c.ctx, mine, locker.End{Next: next})
	switch {
	case errors.Is(err, locker.ErrUnavailable) && c.ctx.Err() == nil:
		c.side.giveUp(mine, locker.End{}, true)
		if next != nil {
			next = c.side.anew(next)
		}
		return next, locker.Released{}, nil
	case err != nil:
		return nil, r, fmt.Errorf("Release of a contended key: %w", err)
	}
	return next, r, nil
}

// comesUp returns when mine, or a claim in its place, owns the key for its full
// TTL.
func (c contender) comesUp(mine *locker.Claim, t locker.Try, looks time.Duration) (*locker.Claim, error) {
	told, woken := t.Queued, c.side.ear.timesWoken(mine.Key)
	for {
		if !told || !c.hears(mine, looks, woken) {
			woken = c.side.ear.timesWoken(mine.Key)
			a, err := c.side.Acquire(c.ctx, mine, t)
			switch {
			case errors.Is(err, locker.ErrUnavailable) && c.ctx.Err() == nil:
			case err != nil || a.Acquired:
				return mine, err
			case a.Queued:
				t.Queued, t.Place, told = true, a.Place, true
				continue
			}
		} else if c.renew(c.side, mine) == nil {
			return mine, nil
		}
		// Too late, or without an answer. This claim is over, whichever claim owns
		// the key now.
		c.side.giveUp(mine, locker.End{}, true)
		mine, t.Queued, told = claim(mine.Key, mine.TTL), false, false
		pause()
	}
}

// hears reports whether mine is granted its key before the next look is due. It
// returns false early if mine is woken more than the given number of times.
func (c contender) hears(mine *locker.Claim, looks time.Duration, woken int) bool {
	for start := time.Now(); time.Since(start) < looks; pause() {
		if _, ok := c.side.ear.granted(mine); ok {
			return true
		}
		if c.side.ear.timesWoken(mine.Key) > woken {
			return false
		}
	}
	return false
}

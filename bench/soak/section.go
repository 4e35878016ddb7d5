package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard"
)

// plan is what a call is going to do.
type plan struct {
	work   time.Duration // in its section
	nested bool          // it takes the key again inside
	cancel time.Duration // when its caller gives up, in the wait or in the section; 0: never
}

// newPlan draws one: most sections are short, one in thousands outlasts the TTL.
func newPlan(rnd *rand.Rand, ttl time.Duration) (p plan) {
	switch n := rnd.IntN(10_000); {
	case n < 2:
		p.work = ttl/2 + upTo(rnd, 2*ttl)
	case n < 52:
		p.work = 20*time.Millisecond + upTo(rnd, 60*time.Millisecond)
	case n < 2000:
		p.work = upTo(rnd, 3*time.Millisecond)
	}
	p.nested = rnd.IntN(20) == 0
	if rnd.IntN(10) == 0 {
		p.cancel = time.Millisecond + upTo(rnd, 800*time.Millisecond)
	}
	return p
}

func upTo(rnd *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(int64(most)))
}

// section is one run of a function under the lock.
type section struct {
	*worker
	way   way
	key   int
	entry *entry
	lease lease
}

// run marks begin and end, and changes the counter of the key, as long as the lease is held.
func (s *section) run(ctx context.Context, p plan) {
	defer s.arena.turns.Add(1)
	began := now()
	if s.lease.Err() != nil { // the process slept since it got the key
		s.entry.outcome.Store(int64(late))
		s.entry.began.Store(began)
		return
	}
	s.entry.until.Store(s.deadline())
	s.entry.ended.Store(began)
	s.entry.outcome.Store(int64(ran))
	s.entry.began.Store(began) // the last of these: from here on the parent believes the others

	n := s.arena.counts[s.key].value.Load()
	s.entry.read.Store(n)
	if token, err := s.lease.FencingToken(ctx); err == nil {
		s.entry.token.Store(int64(token))
	}
	if p.nested {
		s.nest(ctx)
	}
	if s.work(p.work) {
		s.arena.counts[s.key].value.Store(n + 1)
		s.entry.wrote.Store(n + 1)
		s.entry.wroteAt.Store(now())
	}
	s.entry.until.Store(s.deadline())
}

// work takes its time, and reports whether the lease was held to the end.
func (s *section) work(d time.Duration) bool {
	const step = 20 * time.Millisecond
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if left > 0 {
			time.Sleep(min(left, step))
		}
		if !s.check() {
			return false
		}
		if left <= step {
			return true
		}
		select {
		case <-s.over: // Close waits for a second
			return true
		default:
		}
	}
}

// check notes until when the lease is held, or that it is not any more.
func (s *section) check() bool {
	at := now()
	err := s.lease.Err()
	deadline := s.deadline()
	s.entry.until.Store(deadline)
	if err == nil {
		s.entry.ended.Store(at)
		return true
	}
	if now() < deadline && !errors.Is(err, guard.ErrClosed) {
		s.entry.broken.Store(s.entry.broken.Load() | lostEarly)
	}
	return false
}

// nest takes the key that s has: it is s's turn still.
func (s *section) nest(ctx context.Context) {
	_ = s.way.do(ctx, keyName(s.key), func(ctx context.Context, l lease) {
		outer := s.entry.token.Load()
		if token, err := l.FencingToken(ctx); err == nil && outer != 0 && int64(token) != outer {
			s.entry.broken.Store(s.entry.broken.Load() | otherToken)
		}
	})
}

func (s *section) deadline() int64 { return s.lease.Deadline().UnixNano() }

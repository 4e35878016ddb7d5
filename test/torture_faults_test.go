package guard_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// shortLived drops keys after a quarter of their TTL, before the first renewal.
// A store whose clock runs fast would do the same.
type shortLived struct{ guard.Locker }

func (s shortLived) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	short := *c
	short.TTL /= 4
	return s.Locker.Acquire(ctx, &short, t)
}

// broken returns a store that breaks a promise.
func broken(how func(s *spy)) func(guard.Locker) guard.Locker {
	return func(l guard.Locker) guard.Locker {
		s := &spy{Locker: l}
		how(s)
		return s
	}
}

// deafRenewals says that renewals worked without sending them.
func deafRenewals(s *spy) {
	s.renew = func(context.Context, func() []error) []error { return []error{nil} }
}

// promiscuous gives the key to everybody.
func promiscuous(s *spy) {
	s.acquire = func(_ context.Context, _ *locker.Claim, next acquires) (locker.Answer, error) {
		answer, err := next()
		answer.Acquired = err == nil
		return answer, err
	}
	deafRenewals(s)
}

// repeats gives the same block of tokens for a second.
func repeats(s *spy) {
	s.acquire = func(_ context.Context, _ *locker.Claim, next acquires) (locker.Answer, error) {
		answer, err := next()
		answer.Token = answer.Token / 1_000_000 * 1_000_000
		return answer, err
	}
}

// tampered has something between the locker and its gate.
type tampered struct {
	guard.Locker
	with func(locker.Waker) locker.Waker
}

func (t tampered) Open(w locker.Waker) error { return t.Locker.Open(t.with(w)) }

func tamper(with func(locker.Waker) locker.Waker) func(guard.Locker) guard.Locker {
	return func(l guard.Locker) guard.Locker { return tampered{l, with} }
}

// swallows gives no grant back that came for nobody.
type swallows struct{ guard.Locker }

func (s swallows) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Queued && c.TTL == 0 {
		return locker.Released{}, nil
	}
	return s.Locker.Release(ctx, c, e)
}

func TestTorture_NoticesABrokenLocker(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		calm bool // the store is sound otherwise
		in   func(guard.Locker) guard.Locker
	}{
		"nobody is excluded": {in: broken(promiscuous)},
		"keys expire early":  {in: func(l guard.Locker) guard.Locker { return shortLived{l} }},
		"renewals are lost":  {in: broken(deafRenewals)},
		"tokens repeat":      {in: broken(repeats)},
		"a grant for nobody is swallowed": {
			calm: true,
			in:   func(l guard.Locker) guard.Locker { return swallows{l} },
		},
		"messages are dropped": {calm: true, in: tamper(func(locker.Waker) locker.Waker { return deafWaker{} })},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				noticed := false
				synctest.Test(t, func(t *testing.T) {
					tt := newTorture()
					tt.calm, tt.fault = fault.calm, fault.in
					tt.run(t, seed)
					noticed = len(tt.violations) > 0
				})
				if noticed {
					return
				}
			}
			t.Error("went unnoticed")
		})
	}
}

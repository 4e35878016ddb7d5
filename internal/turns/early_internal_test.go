package turns

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A balanced is a store behind a balancer that forgets connections. A request
// over one of them is given up early, and later ones have a new connection.
type balanced struct {
	*memlocker.Locker

	gone                atomic.Bool  // the store itself does not answer
	forgotten           atomic.Int64 // connections
	acquires, cleanings atomic.Int64
}

const early = 100 * time.Millisecond

func (b *balanced) Acquire(ctx context.Context, c *locker.Claim, try locker.Try) (locker.Answer, error) {
	b.acquires.Add(1)
	limit := 500 * time.Millisecond
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end)
	}
	switch {
	case b.forgotten.Load() > 0:
		b.forgotten.Add(-1)
		limit = early
	case !b.gone.Load():
		return b.Locker.Acquire(ctx, c, try)
	}
	time.Sleep(limit)
	return locker.Answer{}, fmt.Errorf("%w: %w: %w", locker.ErrUnavailable, locker.ErrSilent, context.DeadlineExceeded)
}

func (b *balanced) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Queued {
		b.cleanings.Add(1)
	}
	return b.Locker.Release(ctx, c, e)
}

// A connection that was forgotten costs a call with one attempt a part of its
// time, and not its key. Nobody hears of an outage. What the first request may
// do later is undone.
func TestOneAttemptOutlivesAForgottenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &balanced{Locker: memlocker.New()}
		e, p := open(t, l), new(party)
		l.forgotten.Store(1)
		began := time.Now()
		turn, err := p.take(t.Context(), e, stageKey, once(0))
		if err != nil || time.Since(began) != early || l.acquires.Load() != 2 {
			t.Fatalf("%v after %v, %d requests", err, time.Since(began), l.acquires.Load())
		}
		mustEnd(t, turn)
		closed(t, e)
		if len(p.news) != 0 || l.cleanings.Load() != 2 {
			t.Errorf("told %v, and the claim is released %d times, want 2", p.news, l.cleanings.Load())
		}
	})
}

// If the new connection is silent too, the store is. Both tries together have
// the limit of one.
func TestTwoSilentConnectionsAreASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &balanced{Locker: memlocker.New()}
		e, p := open(t, l), new(party)
		l.forgotten.Store(1)
		l.gone.Store(true)
		began := time.Now()
		var turn Turn
		s := once(0)
		_, err := turn.Take(t.Context(), e, stageKey, &s, p, Patience{Start: began, Until: began, Once: true})
		took := time.Since(began)
		if silent := turn.Silent(err); !errors.Is(err, locker.ErrUnavailable) || !silent ||
			took < 490*time.Millisecond || took > 550*time.Millisecond || l.acquires.Load() != 2 {
			t.Errorf("%v after %v, silent %v, %d requests", err, took, silent, l.acquires.Load())
		}
		if len(p.news) != 1 || p.news[0].Over {
			t.Errorf("told %+v", p.news)
		}
		closed(t, e)
	})
}

package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// Another program has put a set where a key of ours is, or will be. The names
// are those of the key "k" in Redis.
const (
	theLock    = "guard:{k}"
	theQueue   = theLock + ":wait"
	theCounter = theLock + ":fence"
)

// wrongType starts a server and returns a guard on it. It also returns a
// function that puts a set at a name, and one that reports whether the lock is
// free.
func wrongType(t *testing.T, opts ...guard.Option) (g *guard.Guard, spoil func(name string), free func() bool) {
	t.Helper()
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	spoil = func(name string) {
		t.Helper()
		_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Del(t.Context(), name)
			p.SAdd(t.Context(), name, "theirs")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return onRedis(t, s.Addr, opts...), spoil, func() bool { return rdb.Exists(t.Context(), theLock).Val() == 0 }
}

// wantWrongType fails t unless err says that a key is of another type, and what
// to do. If lost is set, err must be a lost lease. Otherwise it must not.
func wantWrongType(t *testing.T, what string, err error, lost bool) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") ||
		!strings.Contains(err.Error(), "choose another prefix") {
		t.Errorf("%s: got %v, want WRONGTYPE and what to do about it", what, err)
	}
	if errors.Is(err, guard.ErrLeaseLost) != lost {
		t.Errorf("%s: got %v, want a lost lease: %t", what, err, lost)
	}
}

func TestDo_ALockOfAnotherTypeIsTold(t *testing.T) {
	g, spoil, _ := wrongType(t)
	spoil(theLock)
	err := g.Do(t.Context(), "k", func(context.Context) error { t.Error("the function ran"); return nil })
	wantWrongType(t, "Do", err, false)
	_, err = g.Acquire(t.Context(), "k")
	wantWrongType(t, "Acquire", err, false)
	_, err = g.TryAcquire(t.Context(), "k")
	wantWrongType(t, "TryAcquire", err, false)
}

func TestDo_ALockThatBecomesOfAnotherTypeIsLostWithTheReason(t *testing.T) {
	t.Run("Do", func(t *testing.T) {
		g, spoil, _ := wrongType(t)
		wantWrongType(t, "Do", g.Do(t.Context(), "k", func(context.Context) error { spoil(theLock); return nil }), true)
	})
	t.Run("Release", func(t *testing.T) {
		g, spoil, _ := wrongType(t)
		l := must(g.Acquire(t.Context(), "k"))
		spoil(theLock)
		wantWrongType(t, "Release", l.Release(t.Context()), true)
	})
	t.Run("FencingToken", func(t *testing.T) {
		g, spoil, _ := wrongType(t)
		l := must(g.Acquire(t.Context(), "k"))
		spoil(theLock)
		_, err := l.FencingToken(t.Context())
		wantWrongType(t, "FencingToken", err, true)
		wantWrongType(t, "Lease.Err", l.Err(), true)
		wantWrongType(t, "Release", l.Release(t.Context()), true)
	})
}

func TestDo_AQueueOfAnotherTypeEndsNoLease(t *testing.T) {
	g, spoil, free := wrongType(t)
	// the set of the first round is still there in the second
	for _, when := range []string{"under a lease", "before"} {
		err := g.Do(t.Context(), "k", func(ctx context.Context) error {
			spoil(theQueue)
			_, err := guard.FencingToken(ctx)
			return errors.Join(err, context.Cause(ctx))
		})
		if err != nil || !free() {
			t.Errorf("%s: Do: %v; the key is free: %t", when, err, free())
		}
		l := must(g.Acquire(t.Context(), "k"))
		spoil(theQueue)
		if _, err := l.FencingToken(t.Context()); err != nil || l.Err() != nil {
			t.Errorf("%s: FencingToken: %v, Lease.Err: %v", when, err, l.Err())
		}
		if err := l.Release(t.Context()); err != nil || !free() {
			t.Errorf("%s: Release: %v; the key is free: %t", when, err, free())
		}
	}
}

func TestDo_ACounterOfAnotherTypeEndsNoLease(t *testing.T) {
	g, spoil, free := wrongType(t)
	spoil(theCounter)
	l := must(g.Acquire(t.Context(), "k"))
	_, err := l.FencingToken(t.Context())
	wantWrongType(t, "FencingToken", err, false)
	if !errors.Is(err, guard.ErrUnavailable) {
		t.Errorf("FencingToken: got %v, want ErrUnavailable", err)
	}
	if l.Err() != nil {
		t.Errorf("Lease.Err: %v", l.Err())
	}
	if err := l.Release(t.Context()); err != nil || !free() {
		t.Errorf("Release: %v; the key is free: %t", err, free())
	}
	if err := g.Do(t.Context(), "k", nop); err != nil || !free() {
		t.Errorf("Do: %v; the key is free: %t", err, free())
	}
}

func TestDo_ACounterOfAnotherTypeIsToldBeforeAFencedCall(t *testing.T) {
	g, spoil, _ := wrongType(t, guard.WithFencing())
	spoil(theCounter)
	err := g.Do(t.Context(), "k", func(context.Context) error { t.Error("the function ran"); return nil })
	wantWrongType(t, "Do", err, false)
}

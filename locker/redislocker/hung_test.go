package redislocker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// A server that hangs takes requests, and carries them out once it goes on.
func TestHungServerBoundsCallsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	l := open(t, rdb)
	ours := []*locker.Claim{claim("a"), claim("b")}
	for _, c := range ours {
		mustAcquire(t, l, c)
	}

	s.Stop()
	const limit = 100 * time.Millisecond
	wanted := claim("wanted")
	fresh := fenced("fresh")
	looks, next := claim("looks"), claim("b")
	calls := map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error { _, err := l.Acquire(ctx, wanted, locker.Try{}); return err },
		"Acquire with fencing": func(ctx context.Context) error {
			_, err := l.Acquire(ctx, fresh, locker.Try{})
			return err
		},
		"Acquire that looks first": func(ctx context.Context) error {
			_, err := l.Acquire(ctx, looks, locker.Try{Wait: true, Held: true})
			return err
		},
		"Renew":   func(ctx context.Context) error { return errors.Join(renew(ctx, t, l, ours...)...) },
		"Fence":   func(ctx context.Context) error { return second(l.Fence(ctx, ours[0])) },
		"Release": func(ctx context.Context) error { return second(l.Release(ctx, ours[0], nil)) },
		"Release that queues": func(ctx context.Context) error {
			return second(l.Release(ctx, ours[1], next))
		},
		"Check": func(ctx context.Context) error { return l.Check(ctx, ttl) },
	}
	for name, call := range calls {
		start := time.Now()
		if err := call(within(t, limit)); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
		if d := time.Since(start); d > limit+2*time.Second {
			t.Errorf("%s took %v with a limit of %v", name, d, limit)
		}
	}
	for _, c := range append(ours, wanted, fresh, looks, next) {
		start := time.Now()
		l.Abandon(c, true)
		if d := time.Since(start); d > time.Second {
			t.Errorf("Abandon blocked for %v", d)
		}
	}
	s.Cont()

	for _, c := range append(ours, wanted, fresh, looks, next) {
		eventually(t, c.Key+" is free", func() bool { return rdb.Exists(t.Context(), lock(c.Key)).Val() == 0 })
	}
	time.Sleep(1500 * time.Millisecond) // nothing comes back: the latest request was sent before the server went on
	for _, c := range append(ours, wanted, fresh, looks, next) {
		if rdb.Exists(t.Context(), lock(c.Key)).Val() != 0 {
			t.Errorf("key %s is back", c.Key)
		}
	}
}

func TestUnreachableServerIsUnavailableAtOnce(t *testing.T) {
	s := redistest.Start(t)
	l := open(t, redistest.Client(t, s.Addr))
	s.Kill()
	start := time.Now()
	_, err := l.Acquire(within(t, ttl), claim("k"), locker.Try{})
	if !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if d := time.Since(start); d > ttl/2 {
		t.Errorf("it took %v to find nobody there", d)
	}
}

func TestCloseEndsWithItsContextThoughTheServerHangs(t *testing.T) {
	s := redistest.Start(t)
	l := open(t, redistest.Client(t, s.Addr))
	c := claim("k")
	mustAcquire(t, l, c)
	s.Stop()
	defer s.Cont()
	l.Abandon(c, true)
	start := time.Now()
	if err := l.Close(within(t, 50*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v, want DeadlineExceeded", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("Close took %v", d)
	}
}

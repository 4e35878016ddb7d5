package redislocker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// A server that hangs takes requests, and does them once it goes on.
func TestHungServerBoundsCallsAndLeavesNothing(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	l := open(t, rdb)
	held := []*guard.Claim{claim("a"), claim("b")}
	for _, c := range held {
		mustAcquire(t, l, c)
	}

	s.Stop()
	const limit = 100 * time.Millisecond
	wanted := claim("wanted")
	fresh := fenced("fresh")
	calls := map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error { _, err := l.Acquire(ctx, wanted); return err },
		"Acquire with fencing": func(ctx context.Context) error {
			_, err := l.Acquire(ctx, fresh)
			return err
		},
		"Renew":   func(ctx context.Context) error { return errors.Join(l.Renew(ctx, held)...) },
		"Fence":   func(ctx context.Context) error { _, err := l.Fence(ctx, held[0]); return err },
		"Release": func(ctx context.Context) error { _, err := l.Release(ctx, held[0]); return err },
		"Check":   func(ctx context.Context) error { return l.Check(ctx, ttl) },
	}
	for name, call := range calls {
		start := time.Now()
		if err := call(within(t, limit)); !errors.Is(err, guard.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
		if d := time.Since(start); d > limit+2*time.Second {
			t.Errorf("%s took %v with a limit of %v", name, d, limit)
		}
	}
	for _, c := range append(held, wanted, fresh) {
		start := time.Now()
		l.Abandon(c)
		if d := time.Since(start); d > time.Second {
			t.Errorf("Abandon blocked for %v", d)
		}
	}
	s.Cont()

	for _, c := range append(held, wanted, fresh) {
		for free := false; !free; time.Sleep(5 * time.Millisecond) {
			free = rdb.Exists(t.Context(), "guard:{"+c.Key+"}").Val() == 0
		}
	}
	time.Sleep(1500 * time.Millisecond) // nothing comes back: the latest request was sent before the server went on
	for _, c := range append(held, wanted, fresh) {
		if rdb.Exists(t.Context(), "guard:{"+c.Key+"}").Val() != 0 {
			t.Errorf("key %s is back", c.Key)
		}
	}
}

func TestUnreachableServerIsUnavailableAtOnce(t *testing.T) {
	s := redistest.Start(t)
	l := open(t, redistest.Client(t, s.Addr))
	s.Kill()
	start := time.Now()
	_, err := l.Acquire(within(t, ttl), claim("k"))
	if !errors.Is(err, guard.ErrUnavailable) {
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
	l.Abandon(c)
	start := time.Now()
	if err := l.Close(within(t, 50*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v, want DeadlineExceeded", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("Close took %v", d)
	}
}

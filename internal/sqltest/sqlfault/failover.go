package sqlfault

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// FailoverMax is how long a locker may need to find the new primary on a busy
// machine.
const FailoverMax = 20 * time.Second

// Failover checks that each verb finds the new primary, whose table is empty,
// while the old one answers on as a server that takes no writes. move makes it
// so.
func Failover(t *testing.T, newLocker func() locker.Locker, move func()) {
	t.Helper()
	// Each verb has claims of its own: c, which has its key, next, which wants that
	// key, and free, whose key nobody else wants. A try may take a key though its
	// answer is late, so that the next try must be of the same claim.
	verbs := map[string]func(ctx context.Context, l locker.Locker, c, next, free *locker.Claim) error{
		"acquire": func(ctx context.Context, l locker.Locker, _, _, free *locker.Claim) error {
			a, err := l.Acquire(ctx, free, locker.Try{})
			if err == nil && !a.Acquired {
				return errors.New("a free key is not acquired")
			}
			return err
		},
		"acquire a key of the old primary": func(ctx context.Context, l locker.Locker, _, next, _ *locker.Claim) error {
			a, err := l.Acquire(ctx, next, locker.Try{})
			if err == nil && !a.Acquired {
				return errOld
			}
			return err
		},
		"renew": func(ctx context.Context, l locker.Locker, c, _, _ *locker.Claim) (err error) {
			l.Renew(ctx, []*locker.Claim{c}, func(_ int, e error) { err = e })
			return lost(err)
		},
		"release": func(ctx context.Context, l locker.Locker, c, _, _ *locker.Claim) error {
			_, err := l.Release(ctx, c, locker.End{})
			return lost(err)
		},
	}
	var ready, all sync.WaitGroup
	moved := make(chan struct{})
	for name, verb := range verbs {
		l := newLocker()
		if err := l.Open(lockerkit.Deaf{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close(context.WithoutCancel(t.Context())) })
		ready.Add(1)
		all.Go(func() {
			c := claim(name + lockerkit.NewID())
			next, free := claim(c.Key), claim("other "+c.Key)
			err := connected(t.Context(), l, c)
			ready.Done()
			if err != nil {
				t.Error(err)
				return
			}
			<-moved
			began := time.Now()
			err = until(t.Context(), func(ctx context.Context) error { return verb(ctx, l, c, next, free) })
			if t.Logf("%s: %v", name, time.Since(began)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	do := guarded(t, newLocker())
	ready.Wait()
	move()
	close(moved)
	if err := until(t.Context(), do); err != nil {
		t.Errorf("Do: %v", err)
	}
	all.Wait()
}

// guarded returns a Do of a guard on l, whose connections have been in use.
func guarded(t *testing.T, l locker.Locker) (do func(ctx context.Context) error) {
	t.Helper()
	g, err := guard.New(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	if err := connected(t.Context(), l, claim("of a guard"+lockerkit.NewID())); err != nil {
		t.Fatal(err)
	}
	key := "of a guard, too" + lockerkit.NewID()
	return func(ctx context.Context) error {
		return g.Do(ctx, key, func(context.Context) error { return nil })
	}
}

// connected acquires the key of c, and has all connections of l in use once.
func connected(ctx context.Context, l locker.Locker, c *locker.Claim) error {
	if _, err := l.Acquire(ctx, c, locker.Try{}); err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			d := claim(c.Key + " " + strconv.Itoa(i))
			_, _ = l.Acquire(ctx, d, locker.Try{})
			l.Renew(ctx, []*locker.Claim{d}, func(int, error) {})
		})
	}
	all.Wait()
	return nil
}

// errOld is for an answer of the old primary. Its sessions may hear only in a
// moment that they take no writes any more.
var errOld = errors.New("the old primary has answered")

// until calls f until the new primary answers, or for FailoverMax.
func until(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, FailoverMax)
	defer cancel()
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return f(ctx)
		}()
		again := errors.Is(err, locker.ErrUnavailable) || errors.Is(err, errOld) ||
			errors.Is(err, context.DeadlineExceeded)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// lost returns nil for the answer of an empty table.
func lost(err error) error {
	if errors.Is(err, locker.ErrLeaseLost) {
		return nil
	}
	if err == nil {
		return errOld
	}
	return err
}

func claim(key string) *locker.Claim {
	return &locker.Claim{Key: key, Owner: lockerkit.NewID(), TTL: time.Minute, Limit: 1}
}

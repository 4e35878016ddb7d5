package sqllease

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// away is a database that cannot be reached.
type away struct{}

func (away) Connect(context.Context) (driver.Conn, error) { return nil, errors.New("no way there") }
func (away) Driver() driver.Driver                        { return nil }

// hasty is a guard that wants nothing.
type hasty struct{ lockerkit.Deaf }

// toward returns a locker of a database that is away, whose errors mean v.
func toward(t *testing.T, v Verdict) *Locker {
	t.Helper()
	l := New(&Dialect{Name: "test", Workers: 1, Judge: func(error) Verdict { return v }}, nil, away{}, "lease")
	if err := l.Open(hasty{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.WithoutCancel(t.Context())) })
	return l
}

// The guard forgets a claim that was never sent, and does not give it up.
func TestAClaimThatWasNotSentIsNotLookedFor(t *testing.T) {
	l := toward(t, Unavailable)
	for _, queued := range []bool{false, true} {
		c := &locker.Claim{Key: "k", Owner: "o", TTL: 10 * time.Second}
		a, err := l.Acquire(t.Context(), c, locker.Try{Wait: true, Queued: queued})
		if !errors.Is(err, locker.ErrUnsent) || a.Queued != queued {
			t.Fatalf("%+v, %v, want ErrUnsent, and the claim where it was", a, err)
		}
	}
}

// A refusal may end, as that of a password which has just been changed. A
// result must not be lost by it, so the guard asks again.
func TestARefusalTellsAHolderNothing(t *testing.T) {
	l := toward(t, NoRight)
	c, r := &locker.Claim{Key: "k", Owner: "o", TTL: 10 * time.Second}, locker.Record{Value: "v", TTL: time.Hour}
	if _, err := l.Acquire(t.Context(), c, locker.Try{}); err == nil || errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Acquire: %v, want an error that ends the wait", err)
	}
	for name, f := range map[string]func(ctx context.Context) error{
		"Begin":   func(ctx context.Context) error { _, err := l.Begin(ctx, c, r); return err },
		"Fence":   func(ctx context.Context) error { _, err := l.Fence(ctx, c); return err },
		"Forget":  func(ctx context.Context) error { _, err := l.Forget(ctx, c.Key); return err },
		"Record":  func(ctx context.Context) error { _, err := l.Release(ctx, c, locker.End{Record: r}); return err },
		"Release": func(ctx context.Context) error { _, err := l.Release(ctx, c, locker.End{}); return err },
		"ReleaseAll": func(ctx context.Context) (failed error) {
			l.ReleaseAll(ctx, []*locker.Claim{c}, []locker.End{{}}, func(_ int, _ locker.Released, err error) {
				failed = err
			})
			return failed
		},
		"Renew": func(ctx context.Context) (failed error) {
			l.Renew(ctx, []*locker.Claim{c}, func(_ int, err error) { failed = err })
			return failed
		},
		"Renew of a share": func(ctx context.Context) (failed error) {
			share := *c
			share.Limit = 2
			l.Renew(ctx, []*locker.Claim{&share}, func(_ int, err error) { failed = err })
			return failed
		},
	} {
		if err := f(t.Context()); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
}

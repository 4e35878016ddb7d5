// Package testguard opens guards for tests, and waits for what they do.
package testguard

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// Plain is a Locker that can do nothing beside what each can.
type Plain struct{ locker.Locker }

// Capabilities return none.
func (Plain) Capabilities() locker.Capabilities { return locker.Capabilities{} }

// Patience bounds the wait for what must come, on a machine that does much
// else.
const Patience = time.Minute

// Patient is New for a real server: calls wait for as long as Patience, unless
// opts say otherwise.
func Patient(t testing.TB, l guard.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return New(t, l, append([]guard.Option{guard.WithMaxWait(Patience)}, opts...)...)
}

// New returns a guard that logs nothing, unless opts say otherwise. The guard
// is closed when t ends. A Close that fails or takes longer than Patience, as
// beside a lease that nobody releases, fails t.
func New(t testing.TB, l guard.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	quiet := guard.WithLogger(slog.New(slog.DiscardHandler))
	g, err := guard.New(l, append([]guard.Option{quiet}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return g
}

// Panics fails t unless f panics.
func Panics(t testing.TB, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

// Eventually waits until what is so. The servers of tests know no virtual time.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be: %s", what)
		}
	}
}

// Waiting waits until n claims wait for key.
func Waiting(t testing.TB, g *guard.Guard, key string, n int) {
	t.Helper()
	Eventually(t, "claims wait for "+key, func() bool {
		s, err := g.Inspect(t.Context(), key)
		return err == nil && s.Waiting >= n
	})
}

// HandsOver lets other wait for a key of g, and wants it to get the key.
func HandsOver(t testing.TB, g, other *guard.Guard) {
	t.Helper()
	got := make(chan error, 1)
	err := g.Do(t.Context(), "k", func(context.Context) error {
		go func() { // ends with its one call
			got <- other.Do(t.Context(), "k", func(context.Context) error { return nil })
		}()
		Waiting(t, g, "k", 1)
		return nil
	})
	if err := errors.Join(err, <-got); err != nil {
		t.Error(err)
	}
}

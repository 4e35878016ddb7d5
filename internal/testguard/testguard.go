// Package testguard opens guards for tests.
package testguard

import (
	"context"
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

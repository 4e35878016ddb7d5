package guard

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker/memlocker"
)

// However a key that is kept ends, its gate is forgotten and no timer of the grant is left.
func TestAKeptKeyLeavesNothingBehind(t *testing.T) {
	const key = "k"
	for name, end := range map[string]func(t *testing.T, g *Guard, mem *memlocker.Locker){
		"in time":   func(*testing.T, *Guard, *memlocker.Locker) { time.Sleep(time.Minute) },
		"by a loss": func(_ *testing.T, _ *Guard, mem *memlocker.Locker) { mem.Lose(key); time.Sleep(5 * time.Second) },
		"by an outage": func(_ *testing.T, _ *Guard, mem *memlocker.Locker) {
			mend := mem.Break()
			time.Sleep(2 * time.Minute)
			mend()
		},
		"by Close": func(t *testing.T, g *Guard, _ *memlocker.Locker) { _ = g.Close(t.Context()) },
		"by Close during a renewal": func(t *testing.T, g *Guard, _ *memlocker.Locker) {
			gr := g.family.gates.find(key).holding()
			gr.mu.Lock()
			left := time.Until(gr.renewAt)
			gr.mu.Unlock()
			time.Sleep(left + renewGather/2) // due, and not sent yet
			_ = g.Close(t.Context())
		},
		"by Close that does not wait": func(t *testing.T, g *Guard, _ *memlocker.Locker) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = g.Close(ctx)
		},
		"after a call that has waited for it": func(t *testing.T, g *Guard, _ *memlocker.Locker) {
			_ = g.With(WithMaxWait(time.Hour)).Do(t.Context(), key, func(context.Context) error { return nil })
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memlocker.New()
				g, err := New(mem, WithMinHold(time.Minute), WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
				if err != nil {
					t.Fatal(err)
				}
				if err := g.Do(t.Context(), key, func(context.Context) error { return nil }); err != nil {
					t.Fatal(err)
				}
				gt := g.family.gates.find(key)
				if gt == nil || gt.holding() == nil {
					t.Fatal("the key is not kept")
				}
				gr := gt.holding()
				end(t, g, mem)
				synctest.Wait()
				time.Sleep(time.Second) // a gate may linger for a moment
				if n := len(g.family.gates.all()); n != 0 {
					t.Errorf("%d gates are left", n)
				}
				if gr.timer.Stop() {
					t.Error("the grant's timer is still set")
				}
				if err := g.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

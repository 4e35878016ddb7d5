package guard

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker/memlocker"
)

// However a key that is kept ends, its gate is forgotten and no timer of the grant is left.
func TestAKeptKeyLeavesNothingBehind(t *testing.T) {
	const key = "k"
	for name, end := range map[string]func(ctx context.Context, g *Guard, mem *memlocker.Locker){
		"in time":   func(context.Context, *Guard, *memlocker.Locker) { time.Sleep(time.Minute) },
		"by a loss": func(_ context.Context, _ *Guard, mem *memlocker.Locker) { mem.Lose(key); time.Sleep(5 * time.Second) },
		"by an outage": func(_ context.Context, _ *Guard, mem *memlocker.Locker) {
			mend := mem.Break()
			time.Sleep(2 * time.Minute)
			mend()
		},
		"by Close": func(ctx context.Context, g *Guard, _ *memlocker.Locker) { _ = g.Close(ctx) },
		"by Close during a renewal": func(ctx context.Context, g *Guard, _ *memlocker.Locker) {
			gr := g.family.gates.find(key).holding()
			gr.mu.Lock()
			left := time.Until(gr.renewAt)
			gr.mu.Unlock()
			time.Sleep(left + renewGather/2) // due, and not sent yet
			_ = g.Close(ctx)
		},
		"by Close that does not wait": func(ctx context.Context, g *Guard, _ *memlocker.Locker) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_ = g.Close(ctx)
		},
		"after a call that has waited for it": func(ctx context.Context, g *Guard, _ *memlocker.Locker) {
			_ = g.With(WithMaxWait(time.Hour)).Do(ctx, key, func(context.Context) error { return nil })
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memlocker.New()
				g, err := New(mem, WithMinHold(time.Minute), WithLogger(slog.New(slog.DiscardHandler)))
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
				if s := g.Snapshot(true); len(s) != 1 || len(s[0].Holds) != 1 || !s[0].Holds[0].Kept {
					t.Errorf("the snapshot is %+v", s)
				}
				end(t.Context(), g, mem)
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

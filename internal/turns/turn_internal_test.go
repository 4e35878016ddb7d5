package turns

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// However a cooldown ends, its gate is forgotten and no timer of
// the grant is left.
func TestACooldownLeavesNothingBehind(t *testing.T) {
	const key = "k"
	for name, until := range map[string]func(ctx context.Context, e *Engine, mem *memlocker.Locker){
		"in time": func(context.Context, *Engine, *memlocker.Locker) { time.Sleep(time.Minute) },
		"by a loss": func(_ context.Context, _ *Engine, mem *memlocker.Locker) {
			mem.Lose(key)
			time.Sleep(5 * time.Second)
		},
		"by an outage": func(_ context.Context, _ *Engine, mem *memlocker.Locker) {
			mend := mem.Break()
			time.Sleep(2 * time.Minute)
			mend()
		},
		"by Close": func(ctx context.Context, e *Engine, _ *memlocker.Locker) { _ = e.Close(ctx) },
		"by Close during a renewal": func(ctx context.Context, e *Engine, _ *memlocker.Locker) {
			gr := e.gates.find(key).grants()[0]
			gr.mu.Lock()
			left := time.Until(gr.renewAt)
			gr.mu.Unlock()
			time.Sleep(left + renewGather/2) // due, and not sent yet
			_ = e.Close(ctx)
		},
		"by Close that does not wait": func(ctx context.Context, e *Engine, _ *memlocker.Locker) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_ = e.Close(ctx)
		},
		"after a call that has waited for it": func(ctx context.Context, e *Engine, _ *memlocker.Locker) {
			s := settings()
			s.MaxWait = time.Hour
			if next, err := new(party).take(ctx, e, key, s); err == nil {
				_ = end(ctx, next)
			}
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memlocker.New()
				e, s := open(t, mem), settings()
				s.MinHold = time.Minute
				turn, err := new(party).take(t.Context(), e, key, s)
				if err != nil {
					t.Fatal(err)
				}
				if err := end(t.Context(), turn); err != nil {
					t.Fatal(err)
				}
				gt := e.gates.find(key)
				if gt == nil || len(gt.grants()) == 0 {
					t.Fatal("there is no cooldown")
				}
				gr := gt.grants()[0]
				if s := e.States(time.Now(), 1); len(s) != 1 || len(s[0].Holds) != 1 || !s[0].Holds[0].Cooldown {
					t.Errorf("the snapshot is %+v", s)
				}
				until(t.Context(), e, mem)
				synctest.Wait()
				time.Sleep(time.Second) // a gate may be kept for a moment
				if n := len(e.gates.all()); n != 0 {
					t.Errorf("%d gates are left", n)
				}
				if gr.timer.Stop() {
					t.Error("the grant's timer is still set")
				}
				if err := e.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A key whose function has returned is held until its release is answered, and
// nobody waits for it.
func TestStatesTellAKeyThatIsBeingReleased(t *testing.T) {
	for name, of := range map[string]func(mem *memlocker.Locker) locker.Locker{
		"a renewal hangs": func(mem *memlocker.Locker) locker.Locker { return slow{mem, time.Hour} },
		"the release hangs": func(mem *memlocker.Locker) locker.Locker {
			u := &unreleased{Locker: mem}
			u.hangs.Store(true)
			return u
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := open(t, of(memlocker.New()))
				turn := mustTake(t, e, settings())
				time.Sleep(settings().TTL/3 + time.Second/2) // the renewal is under way
				go func() { _ = end(t.Context(), turn) }()
				synctest.Wait()
				all := e.States(time.Now(), 1)
				if len(all) != 1 || len(all[0].Holds) != 1 || all[0].Holds[0].Err != nil || all[0].Waiting > 0 {
					t.Errorf("%+v, want one hold", all)
				}
				time.Sleep(time.Minute)
				_ = e.Close(t.Context())
			})
		})
	}
}

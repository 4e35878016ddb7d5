package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

func TestTryDo_SkipsWhatIsHeldAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		own, start := errors.New("own"), time.Now()
		want := func(what string, ran bool, err error, wantRan bool, wantErr error) {
			t.Helper()
			if ran != wantRan || !errors.Is(err, wantErr) || (wantErr == nil && err != nil) {
				t.Errorf("%s: ran %t, %v; want %t, %v", what, ran, err, wantRan, wantErr)
			}
		}
		ran, err := b.TryDo(t.Context(), key, nop)
		want("free", ran, err, true, nil)
		ran, err = b.TryDo(t.Context(), key, func(ctx context.Context) error {
			for name, g := range map[string]*guard.Guard{"held here": b.Guard, "held elsewhere": b.other} {
				ran, err := g.TryDo(t.Context(), key, nop)
				want(name, ran, err, false, nil)
			}
			ran, err := b.TryDo(ctx, key, nop)
			want("inside", ran, err, true, nil)
			return own
		})
		want("the function's error", ran, err, true, own)
		ran, err = b.TryDo(t.Context(), key, func(context.Context) error { b.mem.Lose(key); return nil })
		want("lost", ran, err, true, guard.ErrLeaseLost)

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		ran, err = b.TryDo(gone, key, nop)
		want("the caller has gone", ran, err, false, context.Canceled)
		ran, err = b.TryDo(t.Context(), "", nop)
		want("no key", ran, err, false, guard.ErrInvalidKey)
		ran, err = b.TryDo(t.Context(), key, nil)
		want("no function", ran, err, false, guard.ErrInvalidOption)
		ran, err = (*guard.Guard)(nil).TryDo(t.Context(), key, nop)
		want("no default", ran, err, false, guard.ErrNoDefault)
		mend := b.mem.Break()
		ran, err = b.TryDo(t.Context(), key, nop)
		want("an outage", ran, err, false, guard.ErrUnavailable)
		mend()
		if d := time.Since(start); d > 500*time.Millisecond {
			t.Errorf("waited %v", d)
		}
		_ = b.Close(t.Context())
		ran, err = b.TryDo(t.Context(), key, nop)
		want("closed", ran, err, false, guard.ErrClosed)
	})
}

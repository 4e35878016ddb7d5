package turns

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// hung does not answer releases of several keys.
type hung struct{ *memlocker.Locker }

func (h hung) ReleaseAll(ctx context.Context, cs, _ []*locker.Claim, answer func(int, locker.Released, error)) {
	<-ctx.Done()
	for n := range cs {
		answer(n, locker.Released{}, fmt.Errorf("%w: it hangs", locker.ErrUnavailable))
	}
}

func TestReleasesTogetherEndWithinTheLimitOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := open(t, hung{memlocker.New()}), settings()
		var ts []*Turn
		for _, key := range []string{"a", "b", "c"} {
			turn, err := new(party).take(t.Context(), e, key, s)
			if err != nil {
				t.Fatal(err)
			}
			if back, cause := turn.End(true, true); !back || cause != nil {
				t.Fatalf("the end of a turn: %v, %v", back, cause)
			}
			ts = append(ts, turn)
		}
		start := time.Now()
		for i, err := range e.ReleaseKeys(t.Context(), ts) {
			if !errors.Is(err, locker.ErrUnavailable) {
				t.Errorf("release %d: %v", i, err)
			}
			ts[i].Leave()
		}
		if took := time.Since(start); took != limits.Release(s.TTL) {
			t.Errorf("they took %v, want %v", took, limits.Release(s.TTL))
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

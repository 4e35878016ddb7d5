package rowlocker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// noRows are Rows that nobody asks.
type noRows struct{ Rows }

func (noRows) Traits() Traits { return Traits{Name: "test", Clock: true, Workers: 1, Batch: 128} }

// The guard goes on with a claim whose request was not sent, and gives up one
// whose request may still be carried out (law 12).
func TestACallIsUnsentUntilAWorkerHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(noRows{}, noRows{}.Traits(), "i")
		for _, taken := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if taken {
				go func() { (<-b.calls).Take() }()
			}
			r := b.do(ctx, request{key: "k"})
			if r.unsent == taken || !errors.Is(r.err, context.DeadlineExceeded) {
				t.Errorf("a worker has taken the call: %v; unsent %v, %v", taken, r.unsent, r.err)
			}
			if !taken && (<-b.calls).Take() {
				t.Error("a worker takes a call that was given up")
			}
		}
	})
}

package sqllease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The guard goes on with a claim whose request was not sent, and gives up one
// whose request may still be carried out (law 12).
func TestACallIsUnsentUntilAWorkerHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher(&table{Dialect: &Dialect{Workers: 1}})
		for _, taken := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if taken {
				go func() { (<-b.workers[0]).Take() }()
			}
			r := b.do(ctx, request{key: "k"})
			if r.unsent == taken || !errors.Is(r.err, context.DeadlineExceeded) {
				t.Errorf("a worker has taken the call: %v; unsent %v, %v", taken, r.unsent, r.err)
			}
			if !taken && (<-b.workers[0]).Take() {
				t.Error("a worker takes a call that was given up")
			}
		}
	})
}

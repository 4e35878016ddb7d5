package lockerkit

import (
	"context"

	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/locker"
)

// Holds returns the claims by which the leases in ctx own their keys in store.
// A store gives them to users who want to compare them in transactions of their
// own. It returns false if ctx carries no lease of the guard on store, or if
// one of them was released.
func Holds(ctx context.Context, store locker.Locker) (holds []locker.Hold, ok bool) {
	lease, ok := ctx.Value(ctxkey.Key).(interface {
		Holds(store locker.Locker) (holds []locker.Hold, ok bool)
	})
	if !ok {
		return nil, false
	}
	return lease.Holds(store)
}

package rpcguard

import (
	"context"

	"github.com/go-lockguard/guard/internal/httpguard"
)

// refusal notes that a rule inside of an Idempotent has not let the call
// through, so nothing was done. Only the call's own goroutine uses it.
type refusal struct{ noted bool }

type refusalKey struct{}

// refused returns err as that of a call whose handler has not run. refused
// notes that for the Idempotent that the call has passed before.
func refused(ctx context.Context, err error) error {
	noteRefusal(ctx, true)
	return httpguard.Refused(err)
}

// noteRefusal notes whether a rule has refused the call. A rule notes false when
// it lets a call through, because something in front of it may have tried again.
func noteRefusal(ctx context.Context, refused bool) {
	if outside, found := ctx.Value(refusalKey{}).(*refusal); found {
		outside.noted = refused
	}
}

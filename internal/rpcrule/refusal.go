package rpcrule

import "context"

// refusal notes that a rule inside of an Idempotent has not let the call
// through, so nothing was done. Only the call's own goroutine uses it.
type refusal struct{ noted bool }

type refusalKey struct{}

// noteRefusal notes whether a rule has refused the call, if it passed an
// Idempotent before.
func noteRefusal(ctx context.Context, refused bool) {
	if outside, found := ctx.Value(refusalKey{}).(*refusal); found {
		outside.noted = refused
	}
}

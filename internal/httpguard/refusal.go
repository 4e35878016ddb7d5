package httpguard

import (
	"context"

	"github.com/go-lockguard/guard"
)

// refusal notes that a lock inside an [Idempotent] has answered. That is no
// result, because the same request may go through the next time. Only the
// request's own goroutine uses it.
type refusal struct {
	noted bool
	ran   bool // a handler has run, and returned the lock's error
}

type refusalKey struct{}

// noteRefusal notes that err is answered inside the Idempotent that ctx passed,
// if it passed one.
func noteRefusal(ctx context.Context, err error) {
	if inner, found := ctx.Value(refusalKey{}).(*refusal); found {
		inner.noted, inner.ran = true, inner.ran || guard.Ran(err)
	}
}

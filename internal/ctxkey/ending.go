package ctxkey

import "context"

// Ending returns the context that a verb must watch if it was called with ctx.
// Usually that is ctx itself.
//
// If ctx is a *gin.Context which carries a lease, or was derived from one,
// Ending returns a new context with ctx's values. It also ends with work, the
// context of that lease. So it ends with the request and with the loss of the
// lease.
//
// A copy of the gin.Context, which outlives the request, is returned unchanged.
// So is a context that context.WithoutCancel derived from the request's.
func Ending(ctx, work context.Context) context.Context {
	c := ctx.Value(Endless)
	if c == nil || c != ctx.Value(self) {
		return ctx
	}
	if ctx.Done() == nil { // later the gin.Context may serve another request, so do not depend on it
		ctx = context.WithoutCancel(ctx)
	}
	both, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(work, func() { cancel(context.Cause(work)) }) // runs no later than the release of the lease
	return &ending{both}
}

// ending has no value for Endless, so that Ending need not look at it again.
type ending struct{ context.Context }

func (e *ending) Value(key any) any {
	if key == any(Endless) {
		return nil
	}
	return e.Context.Value(key)
}

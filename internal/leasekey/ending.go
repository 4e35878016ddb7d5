package leasekey

import "context"

// Ending returns what a verb that was given ctx must watch. That is ctx; but if
// ctx is a *gin.Context which carries a lease, or was derived from one, it is a
// context with ctx's values that also ends with work, the context of that
// lease: with the request, and with the loss of the lease.
//
// A copy of the gin.Context, which outlives the request, stays as it is. So
// does a context that was cut off from a request's with context.WithoutCancel.
func Ending(ctx, work context.Context) context.Context {
	c := ctx.Value(Endless)
	if c == nil || c != ctx.Value(self) {
		return ctx
	}
	if ctx.Done() == nil { // what ends later must not look at the gin.Context, which may serve another request by then
		ctx = context.WithoutCancel(ctx)
	}
	both, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(work, func() { cancel(context.Cause(work)) }) // at the latest when the lease is released
	return &ending{both}
}

// ending is a context that Ending need not look at again.
type ending struct{ context.Context }

func (e *ending) Value(key any) any {
	if key == any(Endless) {
		return nil
	}
	return e.Context.Value(key)
}

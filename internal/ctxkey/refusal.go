package ctxkey

import (
	"context"
	"sync/atomic"
)

// Refusal notes for an idempotent middleware that a lock inside it has refused
// the request. That is no result, because the same request may go through the
// next time. It is safe for concurrent use.
type Refusal struct {
	asked    atomic.Bool // the outcome of a refusal is known to the handler
	answered atomic.Bool // the answer is that outcome
	ran      atomic.Bool // the handler has run, and may have done something
}

// refusalKey is the key under which a context carries the Refusal of the
// innermost idempotent middleware.
type refusalKey struct{}

// WithRefusal returns ctx with r.
func WithRefusal(ctx context.Context, r *Refusal) context.Context {
	return context.WithValue(ctx, refusalKey{}, r)
}

// RefusalIn returns the Refusal that ctx carries. It is nil outside of an
// idempotent middleware, and then the methods do nothing. A framework's own
// context carries no Refusal but a lease, in whose context there is one.
func RefusalIn(ctx context.Context) *Refusal {
	if r, found := ctx.Value(refusalKey{}).(*Refusal); found {
		return r
	}
	if l, found := ctx.Value(Key).(interface{ Context() context.Context }); found {
		r, _ := l.Context().Value(refusalKey{}).(*Refusal)
		return r
	}
	return nil
}

// Asked notes that the handler knows of a refusal. It need not answer with it.
func (r *Refusal) Asked() {
	if r != nil {
		r.asked.Store(true)
	}
}

// Answered notes that a middleware answers with a refusal. ran is whether a
// handler has returned it.
func (r *Refusal) Answered(ran bool) {
	if r == nil {
		return
	}
	if ran {
		r.ran.Store(true)
	}
	r.answered.Store(true)
}

// AnsweredHere notes that somebody writes the outcome of a refusal. It is the
// handler, unless a middleware has noted the answer already.
func (r *Refusal) AnsweredHere() {
	if r != nil && !r.answered.Load() {
		r.Answered(true)
	}
}

// Noted reports whether an answer with that status is a refusal, and whether
// the handler may have done something before. A handler that knows of a refusal
// and fails has failed because of it.
func (r *Refusal) Noted(status int) (noted, ran bool) {
	if r.answered.Load() {
		return true, r.ran.Load()
	}
	return r.asked.Load() && status >= 400, true
}

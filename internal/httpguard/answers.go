package httpguard

import (
	"context"
	"errors"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
)

// Answers defines how an adapter answers errors. A field that is not set is
// taken from the middleware outside. H is the type of the adapter's error
// handlers.
type Answers[H any] struct {
	OnError *H  // nil means the answers of package outcome
	Held    int // status of a held key; 0 means the status of package outcome
}

// Any reports whether anything is set.
func (a Answers[H]) Any() bool { return a.OnError != nil || a.Held != 0 }

// Over returns a with its unset fields taken from outer.
func (a Answers[H]) Over(outer Answers[H]) Answers[H] {
	if a.OnError == nil {
		a.OnError = outer.OnError
	}
	if a.Held == 0 {
		a.Held = outer.Held
	}
	return a
}

// Note notes a's status at err, if that says of a key that it was held.
func (a Answers[H]) Note(err error) error {
	if a.Held == 0 || !errors.Is(err, guard.ErrNotAcquired) {
		return err
	}
	return errnote.With(err, errnote.HeldStatus(a.Held))
}

// answersKey is the key under which a context carries the answers of the
// innermost middleware.
type answersKey[H any] struct{}

// AnswersIn returns the answers that ctx carries.
func AnswersIn[H any](ctx context.Context) Answers[H] {
	a, _ := ctx.Value(answersKey[H]{}).(Answers[H])
	return a
}

// Into returns ctx with a, which takes precedence over the answers that ctx
// carries.
func (a Answers[H]) Into(ctx context.Context) context.Context {
	if !a.Any() {
		return ctx
	}
	return context.WithValue(ctx, answersKey[H]{}, a.Over(AnswersIn[H](ctx)))
}

package lockmw

import (
	"context"
	"net/http"

	"github.com/go-lockguard/guard/internal/httpguard"
)

type errorHandler = func(http.ResponseWriter, *http.Request, error)

// answers is how errors are answered. What is not set is as outside.
type answers struct {
	onError errorHandler // nil: the answers of package outcome
	held    int          // status of a held key; 0: that of package outcome
}

func (a answers) any() bool { return a.onError != nil || a.held != 0 }

// over returns a with what it has not set from outer.
func (a answers) over(outer answers) answers {
	if a.onError == nil {
		a.onError = outer.onError
	}
	if a.held == 0 {
		a.held = outer.held
	}
	return a
}

func newAnswers(opts []AnswerOption) (a answers) {
	for _, o := range opts {
		if o == nil {
			panic("lockmw: an option is nil")
		}
		o.set(&a)
	}
	return a
}

// answersKey is where a context carries the answers of the innermost middleware.
type answersKey struct{}

func answersIn(ctx context.Context) answers {
	a, _ := ctx.Value(answersKey{}).(answers)
	return a
}

// in returns ctx with a, over what ctx has.
func (a answers) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, answersKey{}, a.over(answersIn(ctx)))
}

// Answers returns a middleware that sets, once for all routes inside it, how
// locks answer, and how [Error] does in a handler without a lock too:
//
//	handler := lockmw.Answers(lockmw.WithErrorHandler(envelope))(mux)
//
// The options of a route go before. It panics if an option is nil.
func Answers(opts ...AnswerOption) func(http.Handler) http.Handler {
	a := newAnswers(opts)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served := r.WithContext(a.in(r.Context()))
			defer httpguard.GiveBack(r, served)
			next.ServeHTTP(w, served)
		})
	}
}

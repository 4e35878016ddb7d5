package lockmw

import (
	"context"
	"net/http"

	"github.com/go-lockguard/guard/internal/httpguard"
)

type answers = httpguard.Answers[func(http.ResponseWriter, *http.Request, error)]

func newAnswers(opts []AnswerOption) (a answers) {
	for _, o := range opts {
		if o == nil {
			panic("lockmw: an option is nil")
		}
		o.set(&a)
	}
	return a
}

// answersKey is the key under which a context carries the answers of the
// innermost middleware.
type answersKey struct{}

func answersIn(ctx context.Context) answers {
	a, _ := ctx.Value(answersKey{}).(answers)
	return a
}

// inside returns ctx with a, which takes precedence over the answers that ctx
// carries.
func inside(ctx context.Context, a answers) context.Context {
	return context.WithValue(ctx, answersKey{}, a.Over(answersIn(ctx)))
}

// Answers returns a middleware that sets how locks answer on all routes inside
// it. It also sets how [Error] answers there, in handlers without a lock too:
//
//	handler := lockmw.Answers(lockmw.WithErrorHandler(envelope))(mux)
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...AnswerOption) func(http.Handler) http.Handler {
	a := newAnswers(opts)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served := r.WithContext(inside(r.Context(), a))
			defer httpguard.GiveBack(r, served)
			next.ServeHTTP(w, served)
		})
	}
}

package lockmw

import (
	"net/http"

	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

type (
	onError = func(http.ResponseWriter, *http.Request, error)
	answers = httpguard.Answers[onError]
)

// with makes the options, beside those of package httpopt.
var with httpguard.Options[onError, *http.Request]

// WithErrorHandler replaces the answers of this middleware, and those of
// [Error] and middleware of this package inside it.
//
// f gets every error that must be answered, including the error of a client
// that has gone. If f writes nothing, the status of outcome.Of is sent.
// WithErrorHandler panics if f is nil.
func WithErrorHandler(f func(w http.ResponseWriter, r *http.Request, err error)) httpopt.AnswerOption {
	return with.ErrorHandler(f)
}

// WithSkipper lets requests through without a lock if f returns true for them.
// WithSkipper panics if f is nil.
func WithSkipper(f func(r *http.Request) bool) httpopt.Option { return with.Skipper(f) }

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY. SafeMethods
// is for groups whose other requests change something:
//
//	r.With(lockmw.Key(g, "cart:{cart}", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(r *http.Request) bool { return httpguard.IsSafe(r.Method) }

// WithReplayHook calls f before [Idempotent] sends the answer of an earlier
// request, for logs and metrics. f blocks the answer. WithReplayHook panics if
// f is nil.
func WithReplayHook(f func(r *http.Request)) httpopt.IdempotentOption { return with.ReplayHook(f) }

// Answers returns a middleware that sets how locks answer on all routes inside
// it. Answers also sets how [Error] answers there, in handlers without a lock
// too:
//
//	handler := lockmw.Answers(lockmw.WithErrorHandler(envelope))(mux)
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...httpopt.AnswerOption) func(http.Handler) http.Handler {
	a := httpguard.NewConfig(with, opts).Answers
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served := r.WithContext(a.Into(r.Context()))
			defer httpguard.GiveBack(r, served)
			next.ServeHTTP(w, served)
		})
	}
}

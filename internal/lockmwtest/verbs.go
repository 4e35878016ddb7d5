package lockmwtest

import (
	"net/http"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// Verbs are the functions of an adapter that make its middleware, for a
// framework whose middleware has type M.
type Verbs[M any] struct {
	Answers    func(opts ...httpopt.AnswerOption) M
	Key        func(g *guard.Guard, template string, opts ...httpopt.Option) M
	Static     func(g *guard.Guard, key string, opts ...httpopt.Option) M
	KeyFunc    func(g *guard.Guard, key keyfunc.Func, opts ...httpopt.Option) M
	Keys       func(g *guard.Guard, templates ...string) M
	KeysFunc   func(g *guard.Guard, keys func(*http.Request) ([]string, error), opts ...httpopt.Option) M
	Idempotent func(g *guard.Guard, scope keyfunc.Func, ttl time.Duration, opts ...httpopt.IdempotentOption) M

	// OnError is WithErrorHandler for a function of net/http.
	OnError    func(f func(w http.ResponseWriter, r *http.Request, err error)) httpopt.AnswerOption
	SkipSafe   httpopt.Option // WithSkipper(SafeMethods)
	ReplayHook func(f func()) httpopt.IdempotentOption

	Always []httpopt.Option // of each lock
}

// Chain returns the middleware for locks.
func (v Verbs[M]) Chain(g *guard.Guard, locks ...Lock) (chain []M) {
	for _, l := range locks {
		chain = append(chain, v.one(g, l))
	}
	return chain
}

func (v Verbs[M]) one(g *guard.Guard, l Lock) M {
	answers := l.answerOptions()
	if l.OnError != nil {
		answers = append(answers, v.OnError(l.OnError))
	}
	opts := append(l.options(answers), v.Always...)
	if l.SkipSafe {
		opts = append(opts, v.SkipSafe)
	}
	switch {
	case l.Answers:
		return v.Answers(answers...)
	case l.TTL != 0:
		once := l.idempotentOptions(opts)
		if l.ReplayHook != nil {
			once = append(once, v.ReplayHook(l.ReplayHook))
		}
		return v.Idempotent(g, l.Scope, l.TTL, once...)
	case l.Key != nil:
		return v.KeyFunc(g, l.Key, opts...)
	case l.Templates != nil:
		return v.Keys(g, l.Templates...)
	case l.Keys != nil:
		return v.KeysFunc(g, l.Keys, opts...)
	case l.Static != "":
		return v.Static(g, l.Static, opts...)
	}
	return v.Key(g, l.Template, opts...)
}

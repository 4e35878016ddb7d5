package httpguard_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

func TestOptionsThatCannotWorkTogetherPanic(t *testing.T) {
	once := func(context.Context, *guard.Guard, string, guard.OnceOptions, func(context.Context) ([]byte, error),
	) (guard.OnceResult, error) {
		return guard.OnceResult{}, nil
	}
	var with httpguard.Options[func(error), *http.Request]
	var other httpguard.Options[func(error), string]
	configure := func(opts ...httpopt.IdempotentOption) {
		cfg := httpguard.NewConfig(with, opts)
		cfg.Idempotent(nil, time.Hour)
	}
	for name, construct := range map[string]func(){
		"a request without a key would have no transaction": func() {
			configure(httpopt.InTransactionOf(once), httpopt.WithOptionalKey())
		},
		"a skipper of another framework": func() { configure(other.Skipper(func(string) bool { return true })) },
		"an error handler of another":    func() { configure(other.ErrorHandler(func(error) {})) },
		"nil":                            func() { configure(nil) },
		"nil keyfunc.Func":               func() { httpguard.OfRequest(nil) },
		"nil function":                   func() { httpguard.OfContext[*http.Request](nil) },
		"nil function of several keys":   func() { httpguard.SeveralOfRequest(nil) },
		"nil scope":                      func() { httpguard.ScopeOfContext[*http.Request](nil) },
		"bad template":                   func() { httpguard.OfTemplate("stock:{a}{b}") },
		"nil error handler":              func() { with.ErrorHandler(nil) },
		"nil skipper":                    func() { with.Skipper(nil) },
		"nil hook":                       func() { with.ReplayHook(nil) },
		"negative limit":                 func() { httpopt.WithBodyLimit(-1) },
		"a unit is missing":              func() { httpguard.CheckMaxWait(1) },
	} {
		testguard.Panics(t, name, construct)
	}
	configure(httpopt.InTransactionOf(once), with.Skipper(func(*http.Request) bool { return true }))
}

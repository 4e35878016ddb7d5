package httpguard

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/outcome"
)

// What a middleware logs goes where its guard logs, in the same words: the name
// of the guard, the hash of the key.

// note is what is logged only once for a route.
type note struct{ what, pattern string }

// Outcome is [outcome.Of] for an error on a route with that pattern. What is
// our own mistake is logged, once for each route, because the client cannot be
// told more than that there is one. l is nil outside of guarded routes.
func (l *Lock) Outcome(r *http.Request, pattern string, err error) (outcome.Outcome, bool) {
	o, ours := outcome.Of(r.Context(), err)
	if o.Code != outcome.Misconfigured {
		return o, ours
	}
	if l != nil {
		if _, told := l.told.LoadOrStore(note{"misconfigured", pattern}, nil); told {
			return o, ours
		}
	}
	route := route(r, pattern)
	if pattern == "" {
		route = r.Method + " " + r.URL.Path // the only one to be seen, in place of a pattern
	}
	l.logger(route).ErrorContext(r.Context(), "guard: the lock of a route is misconfigured", "error", err)
	return o, ours
}

// logKeyFunc says that a key function failed with an error of its own. It does
// so whoever answers: an error handler sees the error, and may not tell.
func (l *Lock) logKeyFunc(x Exchange, err error) {
	r := x.Request()
	if _, ours := outcome.Of(r.Context(), err); !ours {
		l.logger(route(r, x.Pattern())).ErrorContext(r.Context(),
			"guard: the key function of a route failed", "error", err)
	}
}

// logLost says that a response was given under a lease that is lost, before the
// loss or after it. The client has not been told.
func (l *Lock) logLost(x Exchange, key string, err error) {
	r := x.Request()
	l.logger(route(r, x.Pattern())).WarnContext(r.Context(), "guard: lease lost, but the handler's response stands",
		"key_hash", guard.KeyHash(key), "error", err)
}

// logger is that of the guard, for lines about a route.
func (l *Lock) logger(route string) *slog.Logger {
	var g *guard.Guard
	if l != nil {
		g = l.guard
	}
	return g.Logger().With("guard", g.Name(), "route", route)
}

// route is method and pattern: never the path, which may be the key. A pattern
// of ServeMux may have the method already.
func route(r *http.Request, pattern string) string {
	if strings.Contains(pattern, " ") {
		return pattern
	}
	return strings.TrimSpace(r.Method + " " + pattern)
}

package httpguard

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/outcome"
)

// What a middleware logs goes where its guard logs, in the same words: the name of the guard, the hash of the key.

// Outcome is [outcome.Of] for an error on a route with that pattern. What is our own mistake is logged, once for each
// route, because the client cannot be told more than that there is one. l is nil outside of guarded routes.
func (l *Lock) Outcome(r *http.Request, pattern string, err error) (outcome.Outcome, bool) {
	o, ours := outcome.Of(r.Context(), err)
	if o.Code != outcome.Misconfigured {
		return o, ours
	}
	if l != nil {
		if _, told := l.told.LoadOrStore(pattern, nil); told {
			return o, ours
		}
	}
	route := route(r, pattern)
	if pattern == "" {
		route = r.Method + " " + r.URL.Path // the only one to be seen, in place of a pattern
	}
	l.log(r.Context(), slog.LevelError, "guard: the lock of a route is misconfigured", route, slog.Any("error", err))
	return o, ours
}

// LogKeyFunc says that a key function failed with an error of its own that nobody else will look at.
func (l *Lock) LogKeyFunc(r *http.Request, pattern string, err error) {
	l.log(r.Context(), slog.LevelError, "guard: the key function of a route failed", route(r, pattern), slog.Any("error", err))
}

// logLost says that a response was given under a lease that is lost, before the loss or after it. The client has not been
// told.
func (l *Lock) logLost(x Exchange, key string, err error) {
	r := x.Request()
	l.log(r.Context(), slog.LevelWarn, "guard: lease lost, but the handler's response stands", route(r, x.Pattern()),
		slog.String("key_hash", guard.KeyHash(key)), slog.Any("error", err))
}

func (l *Lock) log(ctx context.Context, level slog.Level, msg, route string, more ...slog.Attr) {
	var g *guard.Guard
	if l != nil {
		g = l.guard
	}
	attrs := append([]slog.Attr{slog.String("guard", g.Name()), slog.String("route", route)}, more...)
	g.Logger().LogAttrs(ctx, level, msg, attrs...)
}

// route is method and pattern: never the path, which may be the key. A pattern of ServeMux may have the method already.
func route(r *http.Request, pattern string) string {
	if strings.Contains(pattern, " ") {
		return pattern
	}
	return strings.TrimSpace(r.Method + " " + pattern)
}

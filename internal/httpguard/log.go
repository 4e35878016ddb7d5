package httpguard

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/outcome"
)

// A middleware logs to the logger of its guard and with the same attributes,
// which are the name of the guard and the hash of the key.

// note identifies a message that is logged only once for a route.
type note struct{ what, pattern string }

// Outcome is [outcome.Of] for an error on a route with that pattern, and has
// the status 500 for an error that is not guard's or keyfunc's. Outcome
// logs a server error once for each route, because the client is told no
// details. l is nil outside of guarded routes. An [Idempotent] outside does not
// keep an answer that Outcome was asked for.
func (l *Lock) Outcome(r *http.Request, pattern string, err error) (outcome.Outcome, bool) {
	o, ours := outcome.Of(r.Context(), err)
	if !ours {
		return outcome.Outcome{Status: http.StatusInternalServerError}, false
	}
	ctxkey.RefusalIn(r.Context()).Answered(guard.Ran(err))
	if o.Code != outcome.CodeMisconfigured {
		return o, true
	}
	if l != nil {
		if _, told := l.told.LoadOrStore(note{"misconfigured", pattern}, nil); told {
			return o, true
		}
	}
	route := route(r, pattern)
	if pattern == "" {
		route = r.Method + " " + r.URL.Path // without a pattern the path must do
	}
	l.logger(route).ErrorContext(r.Context(), "guard: the lock of a route is misconfigured", "error", err)
	return o, true
}

// logKeyFunc logs that a key function failed with an error of its own.
// logKeyFunc logs even if an error handler answers, because the handler may not
// log the error.
func (l *Lock) logKeyFunc(x Exchange, err error) {
	r := x.Request()
	if _, ours := outcome.Of(r.Context(), err); !ours {
		l.logger(route(r, x.Pattern())).ErrorContext(r.Context(),
			"guard: the key function of a route failed", "error", err)
	}
}

// logLost logs that a response was given under a lost lease, before the loss or
// after it. The client has not been told.
func (l *Lock) logLost(x Exchange, keys Keys, err error) {
	r := x.Request()
	l.logger(route(r, x.Pattern())).WarnContext(r.Context(), "guard: lease lost, but the handler's response stands",
		"key_hash", keys.hash(), "error", err)
}

// logNotKept logs that a later request may run the handler again, although the
// client got the handler's answer.
func (l *Lock) logNotKept(x Exchange, key string, err error) {
	r := x.Request()
	l.logger(route(r, x.Pattern())).WarnContext(r.Context(), "guard: the store did not confirm that an answer was kept",
		"key_hash", guard.KeyHash(key), "error", err)
}

// logRefused logs that the database has refused a transaction and would refuse it
// again, so the request is answered as failed.
func (l *Lock) logRefused(x Exchange, key string, err error) {
	r := x.Request()
	l.logger(route(r, x.Pattern())).ErrorContext(r.Context(), "guard: the database refused a request's work",
		"key_hash", guard.KeyHash(key), "error", err)
}

// logNotCommitted logs that a transaction has ended without a clear answer of
// the database, or with one that may pass, so the client is to ask again.
func (l *Lock) logNotCommitted(x Exchange, key string, err error) {
	r := x.Request()
	l.logger(route(r, x.Pattern())).WarnContext(r.Context(), "guard: the database did not confirm a request's work",
		"key_hash", guard.KeyHash(key), "error", err)
}

// logInterrupted logs once for a key that its requests are refused until
// somebody forgets the mark of the first one. The key itself is logged, because
// it is what guardctl forget takes.
func (l *Lock) logInterrupted(x Exchange, key string) {
	if _, told := l.told.LoadOrStore(note{"interrupted", key}, nil); told {
		return
	}
	r := x.Request()
	l.logger(route(r, x.Pattern())).WarnContext(r.Context(), Interrupted, "key", key)
}

// Interrupted is the message about a request that was begun before, and whose
// work nobody knows.
const Interrupted = "guard: a request was begun before and not finished: find out what it did, " +
	"then let it run again with guardctl forget"

// noteLeft logs once for a route that its handler has only left an error. What
// a middleware outside then answers is not kept.
func (l *Lock) noteLeft(x Exchange) {
	r := x.Request()
	if _, told := l.told.LoadOrStore(note{"left", x.Pattern()}, nil); !told {
		l.logger(route(r, x.Pattern())).WarnContext(r.Context(),
			"guard: a handler leaves its errors to a middleware outside Idempotent, so those answers are not kept")
	}
}

// logger returns the guard's logger for lines about a route.
func (l *Lock) logger(route string) *slog.Logger {
	var g *guard.Guard
	if l != nil {
		g = l.guard
	}
	return g.Logger().With("guard", g.Name(), "route", route)
}

// route returns method and pattern. route never returns the path, which may
// contain the key. A pattern of ServeMux may have the method already.
func route(r *http.Request, pattern string) string {
	if strings.Contains(pattern, " ") {
		return pattern
	}
	return strings.TrimSpace(r.Method + " " + pattern)
}

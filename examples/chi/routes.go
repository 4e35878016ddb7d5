package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
	"github.com/go-lockguard/guard/outcome"
)

// timeout bounds a request, its wait for a key included.
const timeout = 10 * time.Second

// routes is the whole service: from outside in recovery, authentication, body
// limit, timeout, and the lock last.
func routes(g *guard.Guard) http.Handler {
	pay := lockmw.Key(g, "order:{id|int}")
	// One checkout at a time for a user: the key has what the client cannot
	// choose.
	checkout := lockmw.KeyFunc(g, keyfunc.Join(keyfunc.Static("checkout"), keyfunc.FromContext(user)))

	r := chi.NewRouter()
	r.Use(middleware.Recoverer, lockmw.Answers(lockmw.WithErrorHandler(answer)))
	// Ready as long as it serves. A probe that asked Redis would take every
	// instance out at once when Redis is down, and run has called Check.
	r.Get("/readyz", func(http.ResponseWriter, *http.Request) {})
	r.Group(func(r chi.Router) {
		r.Use(authenticate, middleware.RequestSize(1<<20), middleware.Timeout(timeout))
		r.With(pay).Post("/orders/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
			id, err := strconv.Atoi(chi.URLParam(r, "id")) // the value that the key has, too: {id|int}
			if err == nil {
				err = settle(r.Context(), g, id)
			}
			switch {
			case lockmw.Error(w, r, err):
			case err != nil:
				http.Error(w, "sorry", http.StatusInternalServerError)
			default:
				fmt.Fprintf(w, "order %d is paid\n", id)
			}
		})
		r.With(checkout).Post("/checkout", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
		})
	})
	return r
}

// settle guards itself, because it has other callers. Under the route's lease
// on the same key it simply runs.
func settle(ctx context.Context, g *guard.Guard, id int) error {
	return g.Do(ctx, guard.Key("order", id), func(ctx context.Context) error {
		return ctx.Err()
	})
}

// answer gives every error of a lock the house envelope.
func answer(w http.ResponseWriter, r *http.Request, err error) {
	o, ours := outcome.Of(r.Context(), err)
	switch {
	case !ours: // a key function's own error, which is in the log
		o = outcome.Outcome{Status: http.StatusInternalServerError, Code: "internal", Detail: "Something went wrong."}
	case o.Code == "":
		return // the client has gone
	}
	o.Prepare(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(o.Status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": string(o.Code), "msg": o.Detail})
}

type userKey struct{}

// authenticate stands in for the real thing.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, ok := r.BasicAuth()
		if !ok || name == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, name)))
	})
}

func user(ctx context.Context) (string, bool) {
	name, found := ctx.Value(userKey{}).(string)
	return name, found
}

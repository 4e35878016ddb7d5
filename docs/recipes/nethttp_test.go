package recipes_test

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// The lines for net/http.

func login(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, r.Header.Get("X-User"))))
	})
}

func netSubmit(once *guard.Guard, order http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()

	perUser := func(r *http.Request) (string, error) {
		return guard.Key("submit", r.Pattern, userOf(r.Context())), nil
	}
	mux.Handle("POST /orders", login(lockmw.KeyFunc(once, perUser)(order)))

	mux.Handle("POST /guests/orders", lockmw.Key(once, "order:{cookie.session}:{body}")(order))
	return mux
}

func netEnvelope(g *guard.Guard, key keyfunc.Func, order http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /skus/{sku}/orders", lockmw.Key(g, "stock:{sku|int}")(order))
	mux.Handle("POST /own", lockmw.KeyFunc(g, key)(order))

	handler := lockmw.Answers(lockmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		status, body := refusal(r.Context(), w.Header(), err)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}))(mux)
	return handler
}

func netAlways200(g *guard.Guard, order http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /skus/{sku}/orders", lockmw.Key(g, "stock:{sku|int}")(order))
	return lockmw.Answers(lockmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		status, body := always200(refusal(r.Context(), w.Header(), err))
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}))(mux)
}

func netCart(g *guard.Guard, cart http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()

	user := func(r *http.Request) (string, error) { return guard.Key("user", userOf(r.Context())), nil }
	lock := lockmw.KeyFunc(g, user, lockmw.WithSkipper(lockmw.SafeMethods))
	mux.Handle("/cart", login(lock(cart)))
	return mux
}

func netArticles(a articles) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /articles/{id}", func(w http.ResponseWriter, r *http.Request) {
		a.get(w, r, r.PathValue("id"))
	})
	mux.HandleFunc("PUT /articles/{id}", func(w http.ResponseWriter, r *http.Request) {
		a.put(w, r, r.PathValue("id"))
	})
	return mux
}

func netExports(s *exports) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /exports/{tenant}", login(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.start(w, r, r.PathValue("tenant"))
	})))
	mux.Handle("GET /exports/{tenant}", login(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.state(w, r, r.PathValue("tenant"))
	})))
	return mux
}

package main

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard/httpguardtest"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func mount(g *guard.Guard, h httpguardtest.Handler, templates ...string) http.Handler {
	r := chi.NewRouter()
	inline := r.With()
	for _, template := range templates {
		inline = inline.With(lockmw.Key(g, template))
	}
	inline.Post("/stock/{sku}", func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil && !lockmw.Error(w, r, err) {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	return r
}

// The adapters' own table, on a router that the library itself does not depend on.
func TestTheTableOnChi(t *testing.T) {
	httpguardtest.Run(t, httpguardtest.Adapter{Mount: mount, Raw: true})
}

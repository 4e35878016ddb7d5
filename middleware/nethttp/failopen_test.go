package lockmw_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func TestARouteThatFailsOpenServesWithoutALease(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), guard.WithFailOpen())
	route := lockmw.Key(g.Guard, "doc:{id}")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := guard.LeaseFrom(r.Context()); ok {
			t.Error("a lease")
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	mux := http.NewServeMux()
	mux.Handle("GET /docs/{id}", route)
	g.Break()
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/7", nil))
	if w.Code != http.StatusAccepted {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

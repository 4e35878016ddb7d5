package lockmwtest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// Bench measures the cost of a lock for a request, with leases in memory. That
// is the difference of guarded and bare. do is the guard's own share of it.
func Bench(b *testing.B, a Adapter) {
	b.Helper()
	g, err := guard.New(memlocker.New())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(b.Context())) }()
	h := func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	b.Run("bare", func(b *testing.B) { bench(b, a.Mount(g, h)) })
	b.Run("guarded", func(b *testing.B) { bench(b, a.Mount(g, h, Lock{Template: template})) })
	b.Run("do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = g.Do(b.Context(), key, func(context.Context) error { return nil })
		}
	})
}

func bench(b *testing.B, app http.Handler) {
	b.Helper()
	b.ReportAllocs()
	req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, path, nil)
	w := discard{header: http.Header{}}
	for b.Loop() {
		app.ServeHTTP(&w, req.WithContext(b.Context())) // a new request each time, as from a server
	}
	if w.status != http.StatusNoContent {
		b.Fatalf("got %d", w.status)
	}
}

// discard is a ResponseWriter that keeps the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) Flush()                      {}

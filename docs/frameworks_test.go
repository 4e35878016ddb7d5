package docs_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/outcome"
)

// guarded serves r with fn while it holds key.
func guarded(g *guard.Guard, w http.ResponseWriter, r *http.Request, key string, fn func(ctx context.Context) error) {
	err := g.Do(r.Context(), key, fn)
	if err == nil {
		return // fn has answered
	}
	o, ours := outcome.Of(r.Context(), err)
	if !ours {
		http.Error(w, "sorry", http.StatusInternalServerError) // fn's own error
		return
	}
	outcome.Write(w, o)
}

func TestAFrameworkWithoutAnAdapterAnswersByOutcome(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	post := func(fn func(w http.ResponseWriter) error) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/skus/4711/deduct", nil)
		guarded(g.Guard, w, r, guard.Key("stock", "4711"), func(context.Context) error { return fn(w) })
		return w.Code
	}
	done := func(w http.ResponseWriter) error {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if code := post(done); code != http.StatusNoContent {
		t.Errorf("answered %d", code)
	}
	if code := post(func(http.ResponseWriter) error { return io.EOF }); code != http.StatusInternalServerError {
		t.Errorf("answered %d to an error of its own", code)
	}
	g.Hold(guard.Key("stock", "4711"))
	if code := post(done); code != http.StatusConflict {
		t.Errorf("answered %d, held", code)
	}
}

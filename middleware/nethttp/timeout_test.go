package lockmw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// slow serves one request through wrap(h, lock) in a bubble: h runs for a minute whatever its context says, and the
// timeout is a second. It reports whether the key was held when the client had its answer and h still ran.
func slow(t *testing.T, wrap func(h http.Handler, lock func(http.Handler) http.Handler) http.Handler) (held bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t)
		var running atomic.Bool
		ended := make(chan error, 1) // how h's context did
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			running.Store(true)
			time.Sleep(time.Minute)
			running.Store(false)
			ended <- context.Cause(r.Context())
		})
		w := httptest.NewRecorder()
		start := time.Now()
		wrap(h, lockmw.Static(g, "all")).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		if w.Code != http.StatusServiceUnavailable || time.Since(start) != time.Second || !running.Load() {
			t.Fatalf("got %d after %v, the handler running: %v", w.Code, time.Since(start), running.Load())
		}
		l, err := g.TryAcquire(t.Context(), guard.Key("all"))
		if held = errors.Is(err, guard.ErrNotAcquired); !held {
			_ = l.Release(t.Context())
		}
		if cause := <-ended; cause == nil {
			t.Error("the handler's context did not end")
		}
	})
	return held
}

func TestATimeoutHandlerOutsideTheLockIsSafe(t *testing.T) {
	held := slow(t, func(h http.Handler, lock func(http.Handler) http.Handler) http.Handler {
		return http.TimeoutHandler(lock(h), time.Second, "")
	})
	if !held {
		t.Error("the key was free while the handler ran")
	}
}

// This is what the documentation warns of: TimeoutHandler returns while the handler runs, so nothing outside it can know.
// If it ever fails, the warning can go.
func TestATimeoutHandlerInsideTheLockIsNot(t *testing.T) {
	held := slow(t, func(h http.Handler, lock func(http.Handler) http.Handler) http.Handler {
		return lock(http.TimeoutHandler(h, time.Second, ""))
	})
	if held {
		t.Error("the key was held to the end: the warning in the package documentation is out of date")
	}
}

package lockmw_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// slow serves one request through wrap(h, lock) in a bubble. h runs for a
// minute whatever its context says, and the timeout is a second. slow reports
// whether the key was held when the client had its answer and h still ran.
func slow(
	t *testing.T, wrap func(h http.Handler, lock func(http.Handler) http.Handler) http.Handler,
) (held bool, log string) {
	t.Helper()
	var text strings.Builder
	logger := guard.WithLogger(slog.New(slog.NewTextHandler(&text, nil)))
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, logger)
		var running atomic.Bool
		ended := make(chan error, 1) // how h's context ended
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
	return held, text.String()
}

func TestATimeoutHandlerOutsideTheLockIsSafe(t *testing.T) {
	held, log := slow(t, func(h http.Handler, lock func(http.Handler) http.Handler) http.Handler {
		return http.TimeoutHandler(lock(h), time.Second, "")
	})
	if !held {
		t.Error("the key was free while the handler ran")
	}
	if strings.Contains(log, "TimeoutHandler") {
		t.Errorf("logged:\n%s", log)
	}
}

// The documentation warns of this case. TimeoutHandler returns while the
// handler runs, so code outside it cannot know when the handler ends. It is
// logged. If this test ever fails, the warning can be removed.
func TestATimeoutHandlerInsideTheLockIsNot(t *testing.T) {
	held, log := slow(t, func(h http.Handler, lock func(http.Handler) http.Handler) http.Handler {
		return lock(http.TimeoutHandler(h, time.Second, ""))
	})
	if held {
		t.Error("the key was held to the end: the warning in the package documentation is out of date")
	}
	if strings.Count(log, "level=ERROR msg=\"guard: a timeout inside the lock has answered") != 1 {
		t.Errorf("want a line that says so, got:\n%s", log)
	}
}

// A handler's own 503 is no sign of a timeout, whatever middleware is outside
// the lock.
func TestAHandlersOwn503IsNotTakenForATimeout(t *testing.T) {
	var log strings.Builder
	g := newGuard(t, guard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	h := lockmw.Static(g, "all")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	for _, app := range []http.Handler{h, http.TimeoutHandler(h, time.Minute, "")} {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		if w.Code != http.StatusServiceUnavailable || log.String() != "" {
			t.Errorf("got %d, logged:\n%s", w.Code, log.String())
		}
	}
}

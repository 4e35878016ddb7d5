package lockmw_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
	"github.com/go-lockguard/guard/outcome"
)

// payAgain sends the same request twice to a route with the handler, inside of
// outer.
func payAgain(t *testing.T, g *guard.Guard, outer, handler gin.HandlerFunc) (first, then *httptest.ResponseRecorder) {
	t.Helper()
	r := gin.New()
	r.POST("/pay", outer, lockmw.Idempotent(g, keyfunc.Static("shop"), time.Hour), handler)
	send := func() *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", http.NoBody)
		req.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w
	}
	return send(), send()
}

func TestErrorsThatAreAnsweredOutsideAreNotKept(t *testing.T) {
	var logs bytes.Buffer
	runs := 0
	leftErrors := func(c *gin.Context) {
		c.Next()
		if len(c.Errors) > 0 && !c.Writer.Written() {
			c.String(http.StatusUnprocessableEntity, "left")
		}
	}
	first, then := payAgain(t, newGuard(t, guard.WithLogger(slog.New(slog.NewTextHandler(&logs, nil)))), leftErrors,
		func(c *gin.Context) {
			runs++
			_ = c.Error(errors.New("own"))
		})
	for _, w := range []*httptest.ResponseRecorder{first, then} {
		if w.Code != http.StatusUnprocessableEntity || w.Body.String() != "left" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
	if n := strings.Count(logs.String(), "leaves its errors to a middleware outside"); runs != 2 || n != 1 {
		t.Errorf("%d runs and %d warnings, want 2 and 1:\n%s", runs, n, logs.String())
	}
}

// A status that gin has yet to write is part of the answer, and middleware
// outside sees it.
func TestAStatusWithoutABodyIsKept(t *testing.T) {
	runs, seen := 0, 0
	outer := func(c *gin.Context) {
		c.Next()
		seen = c.Writer.Status()
	}
	first, then := payAgain(t, newGuard(t), outer, func(c *gin.Context) {
		runs++
		c.Status(http.StatusAccepted)
	})
	if want := http.StatusAccepted; first.Code != want || then.Code != want || seen != want || runs != 1 {
		t.Errorf("got %d, then %d, seen outside %d, %d runs", first.Code, then.Code, seen, runs)
	}
}

// The context that a handler gives to outcome.Of may be gin's own.
func TestARefusalThatIsWrittenByTheContextItselfIsNotKept(t *testing.T) {
	runs := 0
	first, then := payAgain(t, newGuard(t), func(*gin.Context) {}, func(c *gin.Context) {
		if runs++; runs > 1 {
			return
		}
		o, _ := outcome.Of(c, &guard.HeldError{})
		outcome.Write(c.Writer, o)
	})
	if first.Code != http.StatusConflict || then.Code != http.StatusOK || runs != 2 {
		t.Errorf("got %d, then %d, %d runs", first.Code, then.Code, runs)
	}
}

// The user of an authentication is in gin's own context.
func TestTheScopeOfIdempotentFromIsInTheContext(t *testing.T) {
	r, runs := gin.New(), 0
	r.POST("/pay", func(c *gin.Context) { c.Set("user", c.GetHeader("X-User")) },
		lockmw.IdempotentFrom(newGuard(t), func(c *gin.Context) (string, error) {
			return c.GetString("user"), nil
		}, time.Hour), func(c *gin.Context) {
			runs++
			c.String(http.StatusOK, c.GetString("user"))
		})
	for i, user := range []string{"ann", "bob", "ann"} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", http.NoBody)
		req.Header.Set("Idempotency-Key", "k")
		req.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if again := w.Header().Get("Idempotency-Replayed") != ""; w.Body.String() != user || again != (i == 2) {
			t.Errorf("%s got %d %s, replay %v", user, w.Code, w.Body, again)
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}

func TestAHandlerSaysThatItHasDoneNothing(t *testing.T) {
	runs := 0
	first, then := payAgain(t, newGuard(t, guard.WithAtMostOnce()), func(*gin.Context) {}, func(c *gin.Context) {
		runs++
		_ = c.Error(guard.NothingDone(errors.New("connection refused")))
		c.Status(http.StatusBadGateway)
	})
	if first.Code != http.StatusBadGateway || then.Code != http.StatusBadGateway || runs != 2 {
		t.Errorf("got %d, then %d, %d runs", first.Code, then.Code, runs)
	}
}

// gin answers itself where it has found no route, after all middleware.
func TestGinsOwn404IsNotKept(t *testing.T) {
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(lockmw.Idempotent(newGuard(t, guard.WithAtMostOnce()), keyfunc.Static("shop"), time.Hour))
	r.PUT("/pay", func(*gin.Context) {})
	for path, status := range map[string]int{"/nowhere": http.StatusNotFound, "/pay": http.StatusMethodNotAllowed} {
		for range 2 {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody)
			req.Header.Set("Idempotency-Key", path)
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			if w.Code != status || w.Body.Len() == 0 || w.Header().Get("Content-Type") != "text/plain" ||
				w.Header().Get("Idempotency-Replayed") != "" {
				t.Errorf("%s: got %d %q %v", path, w.Code, w.Body, w.Header())
			}
		}
	}
}

package lockmw_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/echov5"
)

// payAs sends a payment of user, with the key k, to e.
func payAs(t *testing.T, e *echo.Echo, user string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", http.NoBody)
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("X-User", user)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, req)
	return w
}

// The user of an authentication is in echo's own context.
func TestTheScopeOfIdempotentFromIsInTheContext(t *testing.T) {
	e, runs := echo.New(), 0
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Set("user", c.Request().Header.Get("X-User"))
			return next(c)
		}
	})
	e.POST("/pay", func(c *echo.Context) error {
		runs++
		return c.String(http.StatusOK, c.Get("user").(string))
	}, lockmw.IdempotentFrom(newGuard(t), func(c *echo.Context) (string, error) {
		return c.Get("user").(string), nil
	}, time.Hour))
	for i, user := range []string{"ann", "bob", "ann"} {
		w := payAs(t, e, user)
		if again := w.Header().Get("Idempotency-Replayed") != ""; w.Body.String() != user || again != (i == 2) {
			t.Errorf("%s got %d %s, replay %v", user, w.Code, w.Body, again)
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}

func TestAHandlerSaysThatItHasDoneNothing(t *testing.T) {
	for name, row := range map[string]struct {
		own    func(c *echo.Context) error
		status int
	}{
		"by a header": {func(c *echo.Context) error {
			c.Response().Header().Set("Retry-After", "1")
			return c.NoContent(http.StatusBadGateway)
		}, http.StatusBadGateway},
		"by its error": {func(*echo.Context) error {
			return guard.NothingDone(echo.NewHTTPError(http.StatusBadGateway, "connection refused"))
		}, http.StatusBadGateway},
		"by another": {func(*echo.Context) error {
			return guard.NothingDone(errors.New("connection refused"))
		}, http.StatusInternalServerError},
	} {
		e, runs := echo.New(), 0
		e.POST("/pay", func(c *echo.Context) error {
			runs++
			return row.own(c)
		}, lockmw.Idempotent(newGuard(t, guard.WithAtMostOnce()), keyfunc.Static("shop"), time.Hour))
		for range 2 {
			if w := payAs(t, e, "ann"); w.Code != row.status {
				t.Errorf("%s: got %d %s", name, w.Code, w.Body)
			}
		}
		if runs != 2 {
			t.Errorf("%s: %d runs", name, runs)
		}
	}
}

// The list of methods belongs to the answer.
func TestA405IsKeptWithItsMethods(t *testing.T) {
	e := echo.New()
	e.Use(lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour))
	e.PUT("/pay", func(c *echo.Context) error { return c.NoContent(http.StatusOK) })
	first, then := payAs(t, e, "ann"), payAs(t, e, "ann")
	if allow := first.Header().Get("Allow"); first.Code != http.StatusMethodNotAllowed || then.Code != first.Code ||
		allow == "" || then.Header().Get("Allow") != allow {
		t.Errorf("got %d %v, then %d %v", first.Code, first.Header(), then.Code, then.Header())
	}
}

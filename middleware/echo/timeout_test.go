package lockmw_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// echo's Timeout runs what is inside of it in another goroutine, and echo gives
// the context to the next request when the time is over.
func TestATimeoutThatMixesUpRequestsIsRefusedOutsideALock(t *testing.T) {
	g := testguard.New(t, memlocker.New())
	for name, row := range map[string]struct {
		outside echo.MiddlewareFunc
		status  int
	}{
		"Timeout": {
			middleware.TimeoutWithConfig(middleware.TimeoutConfig{Timeout: time.Minute}), //nolint:staticcheck // is refused
			http.StatusInternalServerError,
		},
		"ContextTimeout": {middleware.ContextTimeout(time.Minute), http.StatusOK},
	} {
		for kind, inside := range map[string]echo.MiddlewareFunc{
			"lock": lockmw.Static(g, "a"),
			"once": lockmw.Idempotent(g, keyfunc.Static("a"), time.Hour,
				httpopt.WithIdempotencyKey(keyfunc.Static("k"))),
		} {
			ran := false
			w := httptest.NewRecorder()
			app(nil, nil, map[string]echo.HandlerFunc{"POST /buy": func(c echo.Context) error {
				ran = true
				return c.NoContent(http.StatusOK)
			}}, row.outside, inside).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/buy", nil))
			if refused := row.status != http.StatusOK; w.Code != row.status || ran == refused ||
				refused && !strings.Contains(w.Body.String(), "lock_misconfigured") {
				t.Errorf("%s, %s: got %d %s, the handler ran: %v", name, kind, w.Code, w.Body, ran)
			}
		}
	}
}

package lockmw_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// echo's Timeout runs what is inside of it in another goroutine, and echo gives
// the context to the next request when the time is over.
func TestATimeoutThatMixesUpRequestsIsRefusedOutsideALock(t *testing.T) {
	quiet(t)
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
			"lock": lockmw.Static(newGuard(t), "a"),
			"once": lockmw.Idempotent(newGuard(t), keyfunc.Static("a"), time.Hour,
				httpopt.WithIdempotencyKey(keyfunc.Static("k"))),
		} {
			ran := false
			w := serve(buy("42"), func(c echo.Context) error {
				ran = true
				return c.NoContent(http.StatusOK)
			}, row.outside, inside)
			if refused := row.status != http.StatusOK; w.Code != row.status || ran == refused ||
				refused && !strings.Contains(w.Body.String(), "lock_misconfigured") {
				t.Errorf("%s, %s: got %d %s, the handler ran: %v", name, kind, w.Code, w.Body, ran)
			}
		}
	}
}

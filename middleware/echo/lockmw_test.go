package lockmw_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard/httpguardtest"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mount(g *guard.Guard, h httpguardtest.Handler, templates ...string) http.Handler {
	var chain []echo.MiddlewareFunc
	for _, template := range templates {
		chain = append(chain, lockmw.Key(g, template))
	}
	e := echo.New()
	e.Use(middleware.ContextTimeout(time.Hour)) // answers context.DeadlineExceeded
	e.POST("/stock/:sku", func(c echo.Context) error {
		err := h(c.Response(), c.Request())
		answer := lockmw.Error(err)
		var he *echo.HTTPError
		if err != nil && !errors.As(answer, &he) {
			return c.NoContent(http.StatusTeapot)
		}
		return answer
	}, chain...)
	return e
}

func TestTheTable(t *testing.T) {
	httpguardtest.Run(t, httpguardtest.Adapter{Mount: mount, Timeout: true})
}

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) {
	httpguardtest.RunSockets(t, httpguardtest.Adapter{Mount: mount, Timeout: true})
}

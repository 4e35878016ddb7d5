package lockmw_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mount(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
	e := mountBare(g, h, locks...).(*echo.Echo)
	e.Use(middleware.ContextTimeout(time.Hour)) // answers context.DeadlineExceeded
	return e
}

func mountBare(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
	serve := func(c echo.Context) error {
		err := h(c.Response(), c.Request())
		answer := lockmw.Error(err)
		if he := (*echo.HTTPError)(nil); err != nil && !errors.As(answer, &he) {
			return c.NoContent(http.StatusTeapot)
		}
		return answer
	}
	chain := verbs.Chain(g, locks...)
	e := echo.New()
	e.Any("/stock/:sku", serve, chain...)
	e.Add("QUERY", "/stock/:sku", serve, chain...)
	return e
}

var verbs = lockmwtest.Verbs[echo.MiddlewareFunc]{
	Answers: lockmw.Answers, Key: lockmw.Key, Static: lockmw.Static, KeyFunc: lockmw.KeyFunc, Keys: lockmw.Keys,
	KeysFunc: lockmw.KeysFunc, Idempotent: lockmw.Idempotent, SkipSafe: lockmw.WithSkipper(lockmw.SafeMethods),
	OnError: func(f func(http.ResponseWriter, *http.Request, error)) httpopt.AnswerOption {
		return lockmw.WithErrorHandler(func(c echo.Context, err error) error {
			f(c.Response(), c.Request(), err)
			return nil
		})
	},
	ReplayHook: func(f func()) httpopt.IdempotentOption {
		return lockmw.WithReplayHook(func(echo.Context) { f() })
	},
}

var version = lockmwtest.Echo[echo.Context, echo.HandlerFunc, echo.MiddlewareFunc]{
	Verbs: verbs, App: app, Error: lockmw.Error, KeyFrom: lockmw.KeyFrom, IdempotentFrom: lockmw.IdempotentFrom,
	WithErrorHandler: lockmw.WithErrorHandler, WithSkipper: lockmw.WithSkipper, Own: echo.ErrNotFound,
	StatusOf: statusOf, Response: func(c echo.Context) http.ResponseWriter { return c.Response() },
	NewError: func(status int, text string, cause error) error {
		return echo.NewHTTPError(status, text).WithInternal(cause)
	},
	BodyLimit: func(bytes int64) echo.MiddlewareFunc {
		return middleware.BodyLimit(strconv.FormatInt(bytes, 10) + "B")
	},
}

func app(use []echo.MiddlewareFunc, onError func(echo.Context, error), routes map[string]echo.HandlerFunc,
	chain ...echo.MiddlewareFunc,
) http.Handler {
	e := echo.New()
	if onError != nil {
		e.HTTPErrorHandler = func(err error, c echo.Context) { onError(c, err) }
	}
	e.Use(use...)
	for route, h := range routes {
		method, path, _ := strings.Cut(route, " ")
		e.Add(method, path, h, chain...)
	}
	return e
}

// statusOf returns the status of an error as echo's own handler finds it.
func statusOf(err error) int {
	if he, ok := err.(*echo.HTTPError); ok { //nolint:errorlint // echo looks at the error itself
		return he.Code
	}
	return 0
}

var adapter = lockmwtest.Adapter{Mount: mount, Timeout: true}

func TestTheTable(t *testing.T) { lockmwtest.Run(t, adapter) }

func TestTheTableOfIdempotent(t *testing.T) { lockmwtest.RunIdempotent(t, adapter) }

func TestWhatOnlyEchoHas(t *testing.T) { lockmwtest.RunEcho(t, version) }

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) { lockmwtest.RunSockets(t, adapter) }

func BenchmarkOverhead(b *testing.B) { lockmwtest.Bench(b, lockmwtest.Adapter{Mount: mountBare}) }

var _ middleware.Skipper = lockmw.SafeMethods

package lockmw_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/echov5"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mount(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
	e := mountBare(g, h, locks...).(*echo.Echo)
	e.Use(middleware.ContextTimeout(time.Hour)) // answers context.DeadlineExceeded
	return e
}

func mountBare(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
	serve := func(c *echo.Context) error {
		err := h(c.Response(), c.Request())
		answer := lockmw.Error(err)
		if err != nil && statusOf(answer) == 0 {
			return c.NoContent(http.StatusTeapot)
		}
		return answer
	}
	chain := verbs.Chain(g, locks...)
	e := echo.New()
	e.Any("/stock/:sku", serve, chain...)
	return e
}

var verbs = lockmwtest.Verbs[echo.MiddlewareFunc]{
	Answers: lockmw.Answers, Key: lockmw.Key, Static: lockmw.Static, KeyFunc: lockmw.KeyFunc, Keys: lockmw.Keys,
	KeysFunc: lockmw.KeysFunc, Idempotent: lockmw.Idempotent, SkipSafe: lockmw.WithSkipper(lockmw.SafeMethods),
	OnError: func(f func(http.ResponseWriter, *http.Request, error)) httpopt.AnswerOption {
		return lockmw.WithErrorHandler(func(c *echo.Context, err error) error {
			f(c.Response(), c.Request(), err)
			return nil
		})
	},
	ReplayHook: func(f func()) httpopt.IdempotentOption {
		return lockmw.WithReplayHook(func(*echo.Context) { f() })
	},
}

var version = lockmwtest.Echo[*echo.Context, echo.HandlerFunc, echo.MiddlewareFunc]{
	Verbs: verbs, App: app, Error: lockmw.Error, KeyFrom: lockmw.KeyFrom, IdempotentFrom: lockmw.IdempotentFrom,
	WithErrorHandler: lockmw.WithErrorHandler, WithSkipper: lockmw.WithSkipper, Own: echo.ErrNotFound,
	StatusOf: statusOf, Response: func(c *echo.Context) http.ResponseWriter { return c.Response() },
	NewError: func(status int, text string, cause error) error {
		return echo.NewHTTPError(status, text).Wrap(cause)
	},
	BodyLimit: func(bytes int64) echo.MiddlewareFunc { return middleware.BodyLimit(bytes) },
}

func app(use []echo.MiddlewareFunc, onError func(*echo.Context, error), routes map[string]echo.HandlerFunc,
	chain ...echo.MiddlewareFunc,
) http.Handler {
	e := echo.New()
	if onError != nil {
		e.HTTPErrorHandler = onError
	}
	e.Use(use...)
	for route, h := range routes {
		method, path, _ := strings.Cut(route, " ")
		e.Add(method, path, h, chain...)
	}
	return e
}

// statusOf returns the status of an error; 0 if those who look for it by its
// type and those who ask for it do not agree.
func statusOf(err error) int {
	he := (*echo.HTTPError)(nil)
	if errors.As(err, &he) && he.Code == echo.StatusCode(err) {
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

func TestEchosHandlerOfProblemDetailsAnswersInItsOwnWay(t *testing.T) {
	g := testguard.New(t, memlocker.New(), guard.WithMaxWait(0))
	held, err := g.Acquire(t.Context(), guard.Key("stock", "42"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Release(t.Context()) }()
	e := echo.New()
	e.HTTPErrorHandler = echo.ProblemDetailsHTTPErrorHandler(true)
	e.POST("/stock/:sku", func(*echo.Context) error { return nil }, lockmw.Key(g, "stock:{sku}"))
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/stock/42", nil))
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusConflict ||
		body["detail"] == "" || body["title"] != "Conflict" || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v %s, %v", w.Code, w.Header(), w.Body, err)
	}
}

// wrapped is a response that another middleware has wrapped.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestAResponseThatIsWrappedIsKnownToHaveBegun(t *testing.T) {
	mem := memlocker.New()
	w := httptest.NewRecorder()
	app(nil, nil, map[string]echo.HandlerFunc{"POST /stock/:sku": func(c *echo.Context) error {
		c.SetResponse(wrapped{c.Response()})
		_, err := io.WriteString(c.Response(), "done")
		mem.Lose(guard.Key("stock", "42"))
		<-c.Request().Context().Done()
		return err
	}}, lockmw.Key(testguard.New(t, mem), "stock:{sku}")).ServeHTTP(w,
		httptest.NewRequest(http.MethodPost, "/stock/42", nil))
	if w.Code != http.StatusOK || w.Body.String() != "done" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestAParameterIsDecodedOnceWhateverTheRouterDoes(t *testing.T) {
	for name, c := range map[string]echo.RouterConfig{
		"as sent":              {},
		"unescaped parameters": {UnescapePathParamValues: true},
		"the decoded path":     {UseEscapedPathForMatching: true},
	} {
		e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(c)})
		var key string
		own := func(c *echo.Context) error {
			l, _ := guard.LeaseFrom(c.Request().Context())
			key = l.Key()
			return nil
		}
		lock := lockmw.Key(testguard.New(t, memlocker.New()), "stock:{shop}:{sku}")
		e.POST("/:shop/stock/:sku", own, lock)
		e.POST("/verb/:shop/stock/:sku\\:buy", own, lock)
		byFunc := lockmw.KeyFunc(testguard.New(t, memlocker.New()), keyfunc.MustParse("stock:{shop}:{sku}"))
		e.POST("/func/:shop/stock/:sku", own, byFunc)
		for given, value := range map[string]string{
			"42": "42", "%61b": "ab", "%2561b": "", "%61%2561b": "", "%61:b": "a:b", "%7Bx%7D%61": "{x}a",
		} {
			for _, path := range []string{
				"/s%41/stock/" + given, "/func/s%41/stock/" + given,
				"/verb/s%41/stock/" + given + ":buy",
			} {
				key = ""
				w := httptest.NewRecorder()
				e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
				want := guard.Key("stock", "sA", value)
				if value == "" && w.Code == http.StatusBadRequest { // or it would have the key of another path
					want = ""
				}
				if key != want {
					t.Errorf("%s, %s: got %q (%d), want %q", name, path, key, w.Code, want)
				}
			}
		}
	}
}

package lockmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
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
	var chain []echo.MiddlewareFunc
	for _, l := range locks {
		switch {
		case l.Answers:
			chain = append(chain, lockmw.Answers(answers(l)...))
		case l.TTL != 0:
			chain = append(chain, lockmw.Idempotent(g, l.Scope, l.TTL, idempotent(l)...))
		case l.Key != nil:
			chain = append(chain, lockmw.KeyFunc(g, l.Key, options(l)...))
		case l.Templates != nil:
			chain = append(chain, lockmw.Keys(g, l.Templates...))
		case l.Keys != nil:
			chain = append(chain, lockmw.KeysFunc(g, l.Keys, options(l)...))
		case l.Static != "":
			chain = append(chain, lockmw.Static(g, l.Static, options(l)...))
		default:
			chain = append(chain, lockmw.Key(g, l.Template, options(l)...))
		}
	}
	e := echo.New()
	serve := func(c echo.Context) error {
		err := h(c.Response(), c.Request())
		answer := lockmw.Error(err)
		var he *echo.HTTPError
		if err != nil && !errors.As(answer, &he) {
			return c.NoContent(http.StatusTeapot)
		}
		return answer
	}
	e.Any("/stock/:sku", serve, chain...)
	e.Add("QUERY", "/stock/:sku", serve, chain...)
	return e
}

func answers(l lockmwtest.Lock) []httpopt.AnswerOption {
	opts := l.AnswerOptions()
	if l.OnError != nil {
		opts = append(opts, lockmw.WithErrorHandler(func(c echo.Context, err error) error {
			l.OnError(c.Response(), c.Request(), err)
			return nil
		}))
	}
	return opts
}

func options(l lockmwtest.Lock) []httpopt.Option {
	opts := l.Options(answers(l))
	if l.SkipSafe {
		opts = append(opts, lockmw.WithSkipper(lockmw.SafeMethods))
	}
	return opts
}

func idempotent(l lockmwtest.Lock) []httpopt.IdempotentOption {
	opts := l.IdempotentOptions(options(l))
	if l.ReplayHook != nil {
		opts = append(opts, lockmw.WithReplayHook(func(echo.Context) { l.ReplayHook() }))
	}
	return opts
}

var adapter = lockmwtest.Adapter{Mount: mount, Timeout: true}

func TestTheTable(t *testing.T) { lockmwtest.Run(t, adapter) }

func TestTheTableOfIdempotent(t *testing.T) { lockmwtest.RunIdempotent(t, adapter) }

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) { lockmwtest.RunSockets(t, adapter) }

func BenchmarkOverhead(b *testing.B) { lockmwtest.Bench(b, lockmwtest.Adapter{Mount: mountBare}) }

func newGuard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(memlocker.New(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	return g
}

// hold takes a key until the test ends.
func hold(t *testing.T, g *guard.Guard, key string) {
	t.Helper()
	l, err := g.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(t.Context()) })
}

func quiet(t *testing.T) {
	t.Helper()
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(before) })
}

// serve sends req to an app with h and the chain on its route POST
// /stock/:sku/buy. The first middleware of the chain is outermost.
func serve(req *http.Request, h echo.HandlerFunc, chain ...echo.MiddlewareFunc) *httptest.ResponseRecorder {
	e := echo.New()
	e.POST("/stock/:sku/buy", h, chain...)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, req)
	return w
}

func buy(sku string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/stock/"+sku+"/buy", nil)
}

func never(t *testing.T) echo.HandlerFunc {
	t.Helper()
	return func(echo.Context) error {
		t.Error("the handler ran")
		return nil
	}
}

func nothing(context.Context) error { return nil }

// returns is a middleware that looks at the error that is returned to it.
func returns(see func(error)) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			see(err)
			return err
		}
	}
}

func TestTheAnswerIsAnHTTPErrorItself(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("stock", "42"))
	seen := false
	w := serve(buy("42"), never(t), returns(func(err error) {
		he, ok := err.(*echo.HTTPError) //nolint:errorlint // as echo's own error handler looks at it
		if seen = true; !ok || he.Code != http.StatusConflict || !errors.Is(err, guard.ErrNotAcquired) {
			t.Errorf("got %T %v", err, err)
		}
		if text := err.Error(); strings.Contains(text, "42") {
			t.Errorf("the error tells the key: %s", text)
		}
	}), lockmw.Key(g, "stock:{sku}"))
	if !seen || w.Code != http.StatusConflict {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestAnOuterDeadlineGetsItsOwnErrorBack(t *testing.T) {
	g := newGuard(t)
	hold(t, g, guard.Key("stock", "42"))
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	seen := false
	serve(buy("42").WithContext(ctx), never(t), returns(func(err error) {
		if seen = true; err != context.DeadlineExceeded { //nolint:errorlint // itself
			t.Errorf("got %T %v", err, err)
		}
	}), lockmw.Key(g, "stock:{sku}"))
	if !seen {
		t.Error("nothing was returned")
	}
}

func TestTheHandlersErrorIsReturnedUntouched(t *testing.T) {
	g := newGuard(t)
	for _, own := range []error{
		nil, errors.New("own"), context.Canceled, echo.NewHTTPError(http.StatusTeapot, "own"), guard.ErrNotAcquired,
		fmt.Errorf("query: %w", context.DeadlineExceeded), fmt.Errorf("own: %w", echo.ErrNotFound),
	} {
		seen := errors.New("nothing")
		serve(buy("42"), func(echo.Context) error { return own }, returns(func(err error) { seen = err }),
			lockmw.Key(g, "stock:{sku}"))
		if seen != own { //nolint:errorlint // itself
			t.Errorf("%v became %v", own, seen)
		}
	}
}

func TestAnApplicationsErrorHandlerMayWriteItsOwnEnvelope(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("stock", "42"))
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		var he *echo.HTTPError
		if !errors.As(err, &he) {
			t.Errorf("got %v", err)
		}
		_ = c.JSON(he.Code, map[string]any{"error": he.Code})
	}
	e.POST("/stock/:sku/buy", never(t), lockmw.Key(g, "stock:{sku}"))
	w := httptest.NewRecorder()
	e.ServeHTTP(w, buy("42"))
	if w.Code != http.StatusConflict || w.Body.String() != "{\"error\":409}\n" || w.Header().Get("Retry-After") == "" ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestTheKeyIsThatOfTheDecodedParameter(t *testing.T) {
	for given, value := range map[string]string{
		"42": "42", "a:b": "a:b", "100%25": "100%",
		"a%2Fb": "a/b", "%61%2F": "a/",
	} {
		w := serve(buy(given), func(c echo.Context) error {
			l, _ := guard.LeaseFrom(c.Request().Context())
			if want := guard.Key("stock", value); l.Key() != want {
				t.Errorf("got %s, want %s", l.Key(), want)
			}
			return nil
		}, lockmw.Key(newGuard(t), "stock:{sku}"))
		if w.Code != http.StatusOK {
			t.Errorf("%s: got %d", given, w.Code)
		}
	}
}

func TestAnEmptyPathParameterIsTheClientsMistake(t *testing.T) {
	w := serve(buy(""), never(t), lockmw.Key(newGuard(t), "stock:{sku}"))
	if w.Code != http.StatusBadRequest {
		t.Errorf("got %d %s, want 400", w.Code, w.Body)
	}
}

func TestTheRequestIsRestored(t *testing.T) {
	body := strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"a\"; " +
		"filename=\"a\"\r\n\r\ncontent\r\n--x--\r\n")
	req := httptest.NewRequest(http.MethodPost, "/stock/42/buy", body)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	var form *multipart.Form
	serve(req, func(c echo.Context) error {
		_, err := c.FormFile("a")
		form = c.Request().MultipartForm
		return err
	}, func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			before := c.Request()
			err := next(c)
			if c.Request() != before {
				t.Error("outer middleware sees the inner request")
			}
			return err
		}
	}, lockmw.Key(newGuard(t), "stock:{sku}"))
	if form == nil || req.MultipartForm != form {
		t.Error("the server will not find the temporary files of the form")
	}
}

func TestWhatTheErrorHandlerReturnsGoesEchosWay(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("stock", "42"))
	w := serve(buy("42"), never(t), lockmw.Key(g, "stock:{sku}",
		lockmw.WithErrorHandler(func(echo.Context, error) error {
			return echo.NewHTTPError(http.StatusTeapot, "own")
		})))
	if w.Code != http.StatusTeapot || !strings.Contains(w.Body.String(), "own") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestTheErrorHandlerServesErrorAndMiddlewareInside(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("order"))
	calls := 0
	outer := lockmw.Key(g, "stock:{sku}", lockmw.WithErrorHandler(func(_ echo.Context, err error) error {
		calls++
		return echo.NewHTTPError(http.StatusTeapot).WithInternal(err)
	}))
	handler := func(c echo.Context) error {
		return fmt.Errorf("buy: %w", lockmw.Error(g.Do(c.Request().Context(), guard.Key("order"), nothing)))
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"Error":             serve(buy("42"), handler, outer),
		"middleware":        serve(buy("42"), never(t), outer, lockmw.Static(g, "order")),
		"Error, two inside": serve(buy("42"), handler, outer, lockmw.Static(g, "a"), lockmw.Static(g, "b")),
	} {
		if w.Code != http.StatusTeapot {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
	if calls != 3 {
		t.Errorf("%d calls of the error handler for 3 requests", calls)
	}
	// A middleware outside the one with the error handler keeps its own
	// answers.
	lost := returns(func(error) {})
	w := serve(buy("42"), func(echo.Context) error { return nil }, lockmw.Static(g, "a"),
		func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				if err := next(c); err != nil {
					t.Error(err)
				}
				return lockmw.Error(guard.ErrLeaseLost)
			}
		}, lost, outer)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "lock_lost") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestErrorLeavesOtherErrorsAlone(t *testing.T) {
	for _, err := range []error{
		nil, errors.New("own"), context.Canceled,
		fmt.Errorf("query: %w", context.DeadlineExceeded),
	} {
		if got := lockmw.Error(err); got != err { //nolint:errorlint // itself
			t.Errorf("%v became %v", err, got)
		}
	}
}

// Without a middleware of this package on the way there are no headers, but
// status and body are right.
func TestErrorOnAnUnguardedRoute(t *testing.T) {
	w := serve(buy("42"), func(echo.Context) error { return lockmw.Error(&guard.HeldError{}) })
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusConflict ||
		body["code"] != "lock_held" {
		t.Errorf("got %d %s, %v", w.Code, w.Body, err)
	}
}

func TestErrorAfterTheFirstByteWritesNothing(t *testing.T) {
	w := serve(buy("42"), func(c echo.Context) error {
		_, _ = io.WriteString(c.Response(), "done")
		return lockmw.Error(guard.ErrLeaseLost)
	}, lockmw.Key(newGuard(t), "stock:{sku}", lockmw.WithErrorHandler(func(echo.Context, error) error {
		t.Error("the error handler was called")
		return nil
	})))
	if w.Code != http.StatusOK || w.Body.String() != "done" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestAKeyFunctionsOwnErrorGoesEchosWay(t *testing.T) {
	w := serve(buy("42"), never(t), lockmw.KeyFrom(newGuard(t), func(echo.Context) (string, error) {
		return "", echo.NewHTTPError(http.StatusUnauthorized, "who are you?")
	}))
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "who are you?") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestEchosOwnBodyLimitAnswersItself(t *testing.T) {
	req := httptest.NewRequest(http.MethodPost, "/stock/42/buy", strings.NewReader(`{"sku":"42"}`))
	req.ContentLength = -1
	for _, template := range []string{"{json.sku}", "stock:{sku}"} {
		w := serve(req, never(t), middleware.BodyLimit("5B"), lockmw.Key(newGuard(t), template))
		if w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: got %d %s", template, w.Code, w.Body)
		}
	}
}

var _ middleware.Skipper = lockmw.SafeMethods

func TestALockInUse(t *testing.T) {
	quiet(t)
	g := newGuard(t)
	health := lockmw.WithSkipper(func(c echo.Context) bool { return c.Path() == "/healthz" })
	for _, c := range []struct {
		name           string
		lock           echo.MiddlewareFunc
		method, target string
		status         int
	}{
		{"path", lockmw.Key(g, "stock:{sku}"), "POST", "/stock/42", http.StatusNoContent},
		{"path", lockmw.Key(g, "stock:{sku}"), "GET", "/healthz", http.StatusInternalServerError},
		{"path, skipped", lockmw.Key(g, "stock:{sku}", health), "GET", "/healthz", http.StatusNoContent},
		{"path", lockmw.Key(g, "stock:{sku}"), "GET", "/unknown", http.StatusNotFound},
		{"path", lockmw.Key(g, "stock:{sku}"), "GET", "/stock/42", http.StatusMethodNotAllowed},
		{"header", lockmw.Key(g, "{header.X-Tenant}"), "POST", "/stock/42", http.StatusBadRequest},
		{"header", lockmw.Key(g, "{header.X-Tenant}"), "GET", "/unknown", http.StatusBadRequest},
		{"static", lockmw.Static(g, "all"), "GET", "/unknown", http.StatusNotFound},
		{"static", lockmw.Static(g, "all"), "GET", "/stock/42", http.StatusMethodNotAllowed},
	} {
		e := echo.New()
		e.Use(c.lock)
		done := func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }
		e.POST("/stock/:sku", done)
		e.GET("/healthz", done)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
		if w.Code != c.status {
			t.Errorf("%s: %s %s: got %d %s, want %d", c.name, c.method, c.target, w.Code, w.Body, c.status)
		}
	}
}

func TestStartUpMistakesPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"bad template":      func() { lockmw.Key(nil, "stock:{a}{b}") },
		"nil keyfunc.Func":  func() { lockmw.KeyFunc(nil, nil) },
		"nil function":      func() { lockmw.KeyFrom(nil, nil) },
		"nil error handler": func() { lockmw.WithErrorHandler(nil) },
		"nil skipper":       func() { lockmw.WithSkipper(nil) },
		"negative limit":    func() { httpopt.WithBodyLimit(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// echo's response takes an informational answer for the answer. A handler that
// fails after it has not answered.
func TestAnErrorAfterAHintIsAnswered(t *testing.T) {
	runs := 0
	e := echo.New()
	e.POST("/pay", func(c echo.Context) error {
		runs++
		c.Response().WriteHeader(http.StatusEarlyHints)
		return echo.NewHTTPError(http.StatusPaymentRequired, "no money")
	}, lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour))
	for range 2 {
		req := httptest.NewRequest(http.MethodPost, "/pay", http.NoBody)
		req.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		e.ServeHTTP(unhinted{w}, req)
		if w.Code != http.StatusPaymentRequired || !strings.Contains(w.Body.String(), "no money") || runs != 1 {
			t.Errorf("got %d %s, %d runs", w.Code, w.Body, runs)
		}
	}
}

// unhinted drops informational answers, which a recorder takes for the answer.
type unhinted struct{ *httptest.ResponseRecorder }

func (u unhinted) WriteHeader(status int) {
	if status >= http.StatusOK {
		u.ResponseRecorder.WriteHeader(status)
	}
}

// echo gives handlers some paths as they were sent and others decoded. What a
// handler cannot tell apart has one key, or is refused.
func TestAParameterThatAHandlerSeesHasOneKey(t *testing.T) {
	for name, lock := range map[string]echo.MiddlewareFunc{
		"Key":     lockmw.Key(newGuard(t), "stock:{sku}"),
		"KeyFunc": lockmw.KeyFunc(newGuard(t), keyfunc.MustParse("stock:{sku}")),
	} {
		keys := map[string]string{}
		for given, status := range map[string]int{
			"a%2Fb": 200, "a%252Fb": 400, "%61b": 200, "%2561b": 400, "%61%2561": 400, "ab": 200, "100%25": 200,
			"100%25zz": 200,
		} {
			w := serve(buy(given), func(c echo.Context) error {
				l, _ := guard.LeaseFrom(c.Request().Context())
				if before, found := keys[c.Param("sku")]; found && before != l.Key() {
					t.Errorf("%s: %q has the keys %q and %q", name, c.Param("sku"), before, l.Key())
				}
				keys[c.Param("sku")] = l.Key()
				return nil
			}, lock)
			if w.Code != status {
				t.Errorf("%s: %s: got %d, want %d", name, given, w.Code, status)
			}
		}
	}
}

package lockmwtest

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

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/echoguard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// EchoContext is the context of any version of echo.
type EchoContext interface {
	echoguard.Context

	Param(name string) string
	FormFile(name string) (*multipart.FileHeader, error)
	String(status int, text string) error
	JSON(status int, value any) error
}

// Echo is a version of echo, with the adapter for it. RunEcho runs what only
// echo has: errors that are returned outwards, its own context and its routes.
type Echo[C EchoContext, H ~func(C) error, M ~func(H) H] struct {
	Verbs Verbs[M]

	// App returns an app with middleware for all routes and with these routes,
	// each "METHOD /path". The error handler is echo's own if it is nil.
	App func(use []M, onError func(C, error), routes map[string]H, chain ...M) http.Handler

	Response  func(c C) http.ResponseWriter
	NewError  func(status int, text string, cause error) error // an error of echo
	StatusOf  func(err error) int                              // as error handlers find it; 0 if they do not
	BodyLimit func(bytes int64) M
	Own       error // of echo, where it finds no route

	Error          func(err error) error
	KeyFrom        func(g *guard.Guard, key func(C) (string, error), opts ...httpopt.Option) M
	IdempotentFrom func(g *guard.Guard, scope func(C) (string, error), ttl time.Duration,
		opts ...httpopt.IdempotentOption) M
	WithErrorHandler func(f func(C, error) error) httpopt.AnswerOption
	WithSkipper      func(f func(C) bool) httpopt.Option
}

// RunEcho runs the table, each row as a subtest. RunEcho changes slog's default
// logger, so it must not run in parallel with other tests.
func RunEcho[C EchoContext, H ~func(C) error, M ~func(H) H](t *testing.T, e Echo[C, H, M]) {
	t.Helper()
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	defer slog.SetDefault(before)
	for name, row := range map[string]func(*testing.T){
		"the answer is an error that error handlers know":           e.answerIsAnError,
		"an outer deadline gets its own error back":                 e.outerDeadline,
		"the handler's error is returned untouched":                 e.untouched,
		"an application's error handler may write its own envelope": e.envelope,
		"what the error handler returns goes echo's way":            e.handlerReturns,
		"the error handler serves Error and middleware inside":      e.handlerServes,
		"Error on an unguarded route":                               e.unguarded,
		"Error after the first byte writes nothing":                 e.afterFirstByte,
		"a key function's own error goes echo's way":                e.ownKeyError,
		"echo's own body limit answers itself":                      e.ownBodyLimit,
		"a parameter that a handler sees has one key":               e.oneKey,
		"the request is restored":                                   e.restored,
		"a lock in use":                                             e.inUse,
		"an error after a hint is answered":                         e.afterHint,
		"the scope of IdempotentFrom is in the context":             e.scopeFrom,
		"a handler says that it has done nothing":                   e.nothingDone,
		"a 405 is kept with its methods":                            e.kept405,
	} {
		t.Run(name, row)
	}
}

// handler makes a handler of echo.
func (e Echo[C, H, M]) handler(f func(C) error) H { return f }

// never is a handler that must not run.
func (e Echo[C, H, M]) never(t *testing.T) H {
	t.Helper()
	return func(C) error {
		t.Error("the handler ran")
		return nil
	}
}

// around is a middleware that runs before, and sees the error that is returned
// to it. after returns the error to pass on.
func (e Echo[C, H, M]) around(before func(C), after func(C, error) error) M {
	return func(next H) H {
		return func(c C) error {
			before(c)
			return after(c, next(c))
		}
	}
}

// returns is a middleware that sees the error that is returned to it.
func (e Echo[C, H, M]) returns(see func(error)) M {
	return e.around(func(C) {}, func(_ C, err error) error {
		see(err)
		return err
	})
}

// serve sends req to an app with h and the chain on its route POST
// /stock/:sku/buy. The first middleware of the chain is outermost.
func (e Echo[C, H, M]) serve(req *http.Request, h H, chain ...M) *httptest.ResponseRecorder {
	return send(e.App(nil, nil, map[string]H{"POST /stock/:sku/buy": h}, chain...), req)
}

func buyOf(sku string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/stock/"+sku+"/buy", nil)
}

// heldKey returns a guard whose key of 42 another lease has.
func heldKey(t *testing.T, keys ...string) *guard.Guard {
	t.Helper()
	g := testguard.New(t, memlocker.New(), guard.WithMaxWait(0))
	for _, key := range keys {
		l, err := g.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Context())) })
	}
	return g
}

const stock = "stock:{sku}"

func (e Echo[C, H, M]) answerIsAnError(t *testing.T) {
	t.Helper()
	g := heldKey(t, guard.Key("stock", "42"))
	seen := false
	w := e.serve(buyOf("42"), e.never(t), e.returns(func(err error) {
		seen = true
		if e.StatusOf(err) != http.StatusConflict || !errors.Is(err, guard.ErrNotAcquired) {
			t.Errorf("got %T %v", err, err)
		}
		if text := err.Error(); strings.Contains(text, "42") {
			t.Errorf("the error tells the key: %s", text)
		}
	}), e.Verbs.Key(g, stock))
	if !seen || w.Code != http.StatusConflict {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func (e Echo[C, H, M]) outerDeadline(t *testing.T) {
	t.Helper()
	g := heldKey(t, guard.Key("stock", "42"))
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	seen := false
	e.serve(buyOf("42").WithContext(ctx), e.never(t), e.returns(func(err error) {
		if seen = true; err != context.DeadlineExceeded { //nolint:errorlint // itself
			t.Errorf("got %T %v", err, err)
		}
	}), e.Verbs.Key(g.With(guard.WithMaxWait(time.Minute)), stock))
	if !seen {
		t.Error("nothing was returned")
	}
}

func (e Echo[C, H, M]) untouched(t *testing.T) {
	t.Helper()
	g := heldKey(t)
	for _, own := range []error{
		nil, errors.New("own"), context.Canceled, e.NewError(http.StatusTeapot, "own", nil), guard.ErrNotAcquired,
		fmt.Errorf("query: %w", context.DeadlineExceeded), fmt.Errorf("own: %w", e.Own),
	} {
		seen := errors.New("nothing")
		h := e.handler(func(C) error { return own })
		e.serve(buyOf("42"), h, e.returns(func(err error) { seen = err }), e.Verbs.Key(g, stock))
		if seen != own { //nolint:errorlint // itself
			t.Errorf("%v became %v", own, seen)
		}
		if errors.Is(own, guard.ErrNotAcquired) {
			continue
		}
		if got := e.Error(own); got != own { //nolint:errorlint // itself
			t.Errorf("%v became %v by Error", own, got)
		}
	}
}

func (e Echo[C, H, M]) envelope(t *testing.T) {
	t.Helper()
	g := heldKey(t, guard.Key("stock", "42"))
	app := e.App(nil, func(c C, err error) {
		_ = c.JSON(e.StatusOf(err), map[string]any{"error": e.StatusOf(err)})
	}, map[string]H{"POST /stock/:sku/buy": e.never(t)}, e.Verbs.Key(g, stock))
	if w := send(app, buyOf("42")); w.Code != http.StatusConflict || w.Body.String() != "{\"error\":409}\n" ||
		w.Header().Get("Retry-After") == "" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}

func (e Echo[C, H, M]) restored(t *testing.T) {
	t.Helper()
	body := strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"a\"; " +
		"filename=\"a\"\r\n\r\ncontent\r\n--x--\r\n")
	req := httptest.NewRequest(http.MethodPost, "/stock/42/buy", body)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	var form *multipart.Form
	var before *http.Request
	e.serve(req, func(c C) error {
		_, err := c.FormFile("a")
		form = c.Request().MultipartForm
		return err
	}, e.around(func(c C) { before = c.Request() }, func(c C, err error) error {
		if c.Request() != before {
			t.Error("outer middleware sees the inner request")
		}
		return err
	}), e.Verbs.Key(heldKey(t), stock))
	if form == nil || req.MultipartForm != form {
		t.Error("the server will not find the temporary files of the form")
	}
}

func (e Echo[C, H, M]) handlerReturns(t *testing.T) {
	t.Helper()
	g := heldKey(t, guard.Key("stock", "42"))
	own := e.WithErrorHandler(func(C, error) error { return e.NewError(http.StatusTeapot, "own", nil) })
	w := e.serve(buyOf("42"), e.never(t), e.Verbs.Key(g, stock, own))
	if w.Code != http.StatusTeapot || !strings.Contains(w.Body.String(), "own") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func (e Echo[C, H, M]) handlerServes(t *testing.T) {
	t.Helper()
	g := heldKey(t, guard.Key("order"))
	calls := 0
	outer := e.Verbs.Key(g, stock, e.WithErrorHandler(func(_ C, err error) error {
		calls++
		return e.NewError(http.StatusTeapot, "own", err)
	}))
	h := e.handler(func(c C) error {
		err := g.Do(c.Request().Context(), guard.Key("order"), func(context.Context) error { return nil })
		return fmt.Errorf("buy: %w", e.Error(err))
	})
	static := func(key string) M { return e.Verbs.Static(g, key) }
	for name, w := range map[string]*httptest.ResponseRecorder{
		"Error":             e.serve(buyOf("42"), h, outer),
		"middleware":        e.serve(buyOf("42"), e.never(t), outer, static("order")),
		"Error, two inside": e.serve(buyOf("42"), h, outer, static("a"), static("b")),
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
	lost := e.around(func(C) {}, func(_ C, err error) error {
		if err != nil {
			t.Error(err)
		}
		return e.Error(guard.ErrLeaseLost)
	})
	w := e.serve(buyOf("42"), func(C) error { return nil }, static("a"), lost, outer)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "lock_lost") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// Without a middleware of the adapter on the way there are no headers, but
// status and body are right.
func (e Echo[C, H, M]) unguarded(t *testing.T) {
	t.Helper()
	w := e.serve(buyOf("42"), func(C) error { return e.Error(&guard.HeldError{}) })
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusConflict ||
		body["code"] != "lock_held" {
		t.Errorf("got %d %s, %v", w.Code, w.Body, err)
	}
}

func (e Echo[C, H, M]) afterFirstByte(t *testing.T) {
	t.Helper()
	own := e.WithErrorHandler(func(C, error) error {
		t.Error("the error handler was called")
		return nil
	})
	w := e.serve(buyOf("42"), func(c C) error {
		_, _ = io.WriteString(e.Response(c), "done")
		return e.Error(guard.ErrLeaseLost)
	}, e.Verbs.Key(heldKey(t), stock, own))
	if w.Code != http.StatusOK || w.Body.String() != "done" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func (e Echo[C, H, M]) ownKeyError(t *testing.T) {
	t.Helper()
	w := e.serve(buyOf("42"), e.never(t), e.KeyFrom(heldKey(t), func(C) (string, error) {
		return "", e.NewError(http.StatusUnauthorized, "who are you?", nil)
	}))
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "who are you?") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func (e Echo[C, H, M]) ownBodyLimit(t *testing.T) {
	t.Helper()
	for _, template := range []string{"{json.sku}", stock} {
		req := httptest.NewRequest(http.MethodPost, "/stock/42/buy", strings.NewReader(`{"sku":"42"}`))
		req.ContentLength = -1
		w := e.serve(req, e.never(t), e.BodyLimit(5), e.Verbs.Key(heldKey(t), template))
		if w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: got %d %s", template, w.Code, w.Body)
		}
	}
}

func (e Echo[C, H, M]) inUse(t *testing.T) {
	t.Helper()
	g := heldKey(t)
	key := func(template string, opts ...httpopt.Option) M { return e.Verbs.Key(g, template, opts...) }
	health := e.WithSkipper(func(c C) bool { return c.Path() == "/healthz" })
	for _, c := range []struct {
		name           string
		lock           M
		method, target string
		status         int
	}{
		{"path", key(stock), "POST", "/stock/42", http.StatusNoContent},
		{"path", key(stock), "GET", "/healthz", http.StatusInternalServerError},
		{"path, skipped", key(stock, health), "GET", "/healthz", http.StatusNoContent},
		{"path", key(stock), "GET", "/unknown", http.StatusNotFound},
		{"path", key(stock), "GET", "/stock/42", http.StatusMethodNotAllowed},
		{"header", key("{header.X-Tenant}"), "POST", "/stock/42", http.StatusBadRequest},
		{"header", key("{header.X-Tenant}"), "GET", "/unknown", http.StatusBadRequest},
		{"static", e.Verbs.Static(g, "all"), "GET", "/unknown", http.StatusNotFound},
		{"static", e.Verbs.Static(g, "all"), "GET", "/stock/42", http.StatusMethodNotAllowed},
	} {
		done := e.handler(func(c C) error { return c.NoContent(http.StatusNoContent) })
		app := e.App([]M{c.lock}, nil, map[string]H{"POST /stock/:sku": done, "GET /healthz": done})
		if w := send(app, httptest.NewRequest(c.method, c.target, nil)); w.Code != c.status {
			t.Errorf("%s: %s %s: got %d %s, want %d", c.name, c.method, c.target, w.Code, w.Body, c.status)
		}
	}
}

// echo gives handlers some paths as they were sent and others decoded. What a
// handler cannot tell apart has one key, or is refused.
func (e Echo[C, H, M]) oneKey(t *testing.T) {
	t.Helper()
	for name, lock := range map[string]M{
		"Key":     e.Verbs.Key(heldKey(t), stock),
		"KeyFunc": e.Verbs.KeyFunc(heldKey(t), keyfunc.MustParse(stock)),
	} {
		keys := map[string]string{}
		for given, want := range map[string]struct {
			status int
			value  string
		}{
			"a%2Fb": {200, "a/b"}, "a%252Fb": {400, ""}, "%61b": {200, "ab"}, "%2561b": {400, ""},
			"%61%2561": {400, ""}, "ab": {200, "ab"}, "100%25": {200, "100%"}, "100%25zz": {200, "100%zz"},
			"42": {200, "42"}, "a:b": {200, "a:b"}, "%61%2F": {200, "a/"}, "": {400, ""},
		} {
			w := e.serve(buyOf(given), func(c C) error {
				l, _ := guard.LeaseFrom(c.Request().Context())
				if l.Key() != guard.Key("stock", want.value) {
					t.Errorf("%s, %s: got the key %s", name, given, l.Key())
				}
				if before, found := keys[c.Param("sku")]; found && before != l.Key() {
					t.Errorf("%s: %q has the keys %q and %q", name, c.Param("sku"), before, l.Key())
				}
				keys[c.Param("sku")] = l.Key()
				return nil
			}, lock)
			if w.Code != want.status {
				t.Errorf("%s: %s: got %d, want %d", name, given, w.Code, want.status)
			}
		}
	}
}

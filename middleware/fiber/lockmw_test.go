package lockmw_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/fiber"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

func TestMain(m *testing.M) {
	// never ends
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

var adapter = lockmwtest.Adapter{Mount: mount, Buffered: true}

func TestTheTable(t *testing.T) { lockmwtest.Run(t, adapter) }

func TestTheTableOfIdempotent(t *testing.T) { lockmwtest.RunIdempotent(t, adapter) }

// fasthttp reuses its contexts, and lockmwtest.Bench does not.
func BenchmarkOverhead(b *testing.B) {
	g, err := guard.New(memlocker.New())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(b.Context())) }()
	for name, chain := range map[string][]any{"bare": {}, "guarded": {lockmw.Key(g, "stock:{sku}")}} {
		app := fiber.New()
		chain = append(chain, func(c fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
		app.Post("/stock/:sku", chain[0], chain[1:]...)
		handle := app.Handler()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var c fasthttp.RequestCtx
			c.Request.Header.SetMethod(http.MethodPost)
			c.Request.SetRequestURI("/stock/42")
			for b.Loop() {
				c.ResetUserValues()
				c.Response.Reset()
				handle(&c)
			}
			if c.Response.StatusCode() != http.StatusNoContent {
				b.Fatalf("got %d", c.Response.StatusCode())
			}
		})
	}
}

func newGuard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.New(t, memlocker.New(), opts...)
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

// do sends POST target with the headers to an app of that configuration. Its
// route /stock/:sku has the chain.
func do(t *testing.T, config fiber.Config, target string, header http.Header, chain ...any) (status int, body string) {
	t.Helper()
	app := fiber.New(config)
	app.Post("/stock/:sku", chain[0], chain[1:]...)
	req := httptest.NewRequest(http.MethodPost, target, nil)
	req.Header = header
	res, err := app.Test(req, fiber.TestConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func ok(c fiber.Ctx) error { return c.SendString("done") }

func TestTheContextItselfCarriesTheLease(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	after := func(c fiber.Ctx) error {
		err := c.Next()
		if _, found := guard.LeaseFrom(c); found {
			t.Error("the lease is still there after the middleware")
		}
		return err
	}
	status, body := do(t, fiber.Config{}, "/stock/42", nil, after, lockmw.Key(g, "stock:{sku}"),
		func(c fiber.Ctx) error {
			return g.Do(c, guard.Key("stock", c.Params("sku")), func(context.Context) error { return ok(c) })
		})
	if status != http.StatusOK || body != "done" {
		t.Errorf("got %d %s", status, body)
	}
}

func TestWaitsAreShorterThanThoseOfTheGuard(t *testing.T) {
	for name, c := range map[string]struct {
		guard time.Duration
		opts  []httpopt.Option
		wait  time.Duration
		told  int
	}{
		"a longer wait":  {3 * time.Second, nil, time.Second, 1},
		"a shorter wait": {time.Millisecond, nil, time.Millisecond, 0},
		"no wait":        {0, nil, 0, 0},
		"a longer one, meant": {
			3 * time.Second,
			[]httpopt.Option{lockmw.WithMaxWait(time.Minute)},
			3 * time.Second, 0,
		},
		"a shorter one than the usual": {3 * time.Second, []httpopt.Option{lockmw.WithMaxWait(0)}, 0, 1},
	} {
		for _, byDefault := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var logs bytes.Buffer
				g := newGuard(t, guard.WithMaxWait(c.guard),
					guard.WithLogger(slog.New(slog.NewTextHandler(&logs, nil))))
				hold(t, g, guard.Key("stock", "42"))
				var route *guard.Guard
				if !byDefault {
					route = g
				}
				app := mountRoute(lockmw.Key(route, "stock:{sku}", c.opts...))
				guard.SetDefault(g) // after the route was made
				defer guard.SetDefault(nil)
				for range 2 {
					start := time.Now()
					if status := app("/stock/42"); status != http.StatusConflict {
						t.Errorf("%s: got %d", name, status)
					}
					if d := time.Since(start); d != c.wait {
						t.Errorf("%s: waited %v, want %v", name, d, c.wait)
					}
				}
				if got := strings.Count(logs.String(), "waits are shorter"); got != c.told {
					t.Errorf("%s: told %d times, want %d:\n%s", name, got, c.told, logs.String())
				}
			})
		}
	}
}

// mountRoute returns the answer to a POST to an app with that lock.
func mountRoute(lock fiber.Handler) func(target string) (status int) {
	app := fiber.New()
	app.Post("/stock/:sku", lock, ok)
	handle := app.Handler()
	return func(target string) int {
		var c fasthttp.RequestCtx
		c.Request.Header.SetMethod(http.MethodPost)
		c.Request.SetRequestURI(target)
		handle(&c)
		return c.Response.StatusCode()
	}
}

func TestAHeaderThatComesTwiceIsAmbiguous(t *testing.T) {
	lock := lockmw.Key(newGuard(t), "{header.X-Tenant}")
	for want, header := range map[int]http.Header{
		http.StatusOK:         {"X-Tenant": {"a"}},
		http.StatusBadRequest: {"X-Tenant": {"a", "b"}},
	} {
		if status, body := do(t, fiber.Config{}, "/stock/42", header, lock, ok); status != want {
			t.Errorf("%v: got %d %s", header, status, body)
		}
	}
}

func TestAParameterIsDecodedOnce(t *testing.T) {
	for _, config := range []fiber.Config{{}, {UnescapePath: true}} {
		for given, value := range map[string]string{"42": "42", "%61b": "ab", "%2561b": "%61b", "a%20b": "a b"} {
			for name, lock := range map[string]fiber.Handler{
				"Key":     lockmw.Key(newGuard(t), "stock:{SKU}"), // fiber ignores the case
				"KeyFunc": lockmw.KeyFunc(newGuard(t), keyfunc.MustParse("stock:{sku}")),
			} {
				var key string
				do(t, config, "/stock/"+given, nil, lock, func(c fiber.Ctx) error {
					l, _ := guard.LeaseFrom(c.Context())
					key = l.Key()
					return nil
				})
				if want := guard.Key("stock", value); key != want {
					t.Errorf("%s, %s, unescaped by fiber %v: got %q, want %q", name, given,
						config.UnescapePath, key, want)
				}
			}
		}
	}
}

func TestAnErrorOfAKeyFunctionDoesNotReachTheClient(t *testing.T) {
	g := newGuard(t, guard.WithLogger(slog.New(slog.DiscardHandler)))
	for err, want := range map[error]string{
		errors.New("s3cret"):                                  "500 Internal Server Error",
		fiber.NewError(http.StatusUnauthorized, "who?"):       "401 who?",
		fmt.Errorf("s3cret: %w", keyfunc.ErrMissing):          `400 {"type"`,
		&keyfunc.Error{Source: "x", Err: keyfunc.ErrNoSource}: `500 {"type"`,
	} {
		lock := lockmw.KeyFrom(g, func(fiber.Ctx) (string, error) { return "", err })
		status, body := do(t, fiber.Config{}, "/stock/42", nil, lock, ok)
		if got := fmt.Sprint(status, " ", body); !strings.HasPrefix(got, want) || strings.Contains(got, "s3cret") {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}

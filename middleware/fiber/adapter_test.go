package lockmw_test

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	lockmw "github.com/go-lockguard/guard/middleware/fiber"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// The table uses net/http. This file converts its requests to those of
// fasthttp, and its handlers to those of fiber.

func mount(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
	var chain []any
	for _, lock := range verbs.Chain(g, locks...) {
		chain = append(chain, lock)
	}
	chain = append(chain, func(c fiber.Ctx) error {
		err := serve(c, func(w http.ResponseWriter, r *http.Request) error { return h(w, r) })
		if err == nil {
			return nil
		}
		if own := lockmw.Error(c, err); own != err { //nolint:errorlint // itself: it is not ours
			return own
		}
		return c.SendStatus(http.StatusTeapot)
	})
	app := fiber.New(fiber.Config{RequestMethods: append(fiber.DefaultMethods, "QUERY")})
	app.Use(func(c fiber.Ctx) error {
		if r, ok := c.Locals(requestKey).(*http.Request); ok {
			c.SetContext(r.Context())
		}
		return c.Next()
	})
	app.All("/stock/:sku", chain[0], chain[1:]...)
	return served{app.Handler()}
}

var verbs = lockmwtest.Verbs[fiber.Handler]{
	Answers: lockmw.Answers, Key: lockmw.Key, Static: lockmw.Static, KeyFunc: lockmw.KeyFunc, Keys: lockmw.Keys,
	KeysFunc: lockmw.KeysFunc, Idempotent: lockmw.Idempotent, SkipSafe: lockmw.WithSkipper(lockmw.SafeMethods),
	Always: []httpopt.Option{lockmw.WithMaxWait(time.Hour)}, // the table has guards with longer waits
	OnError: func(f func(http.ResponseWriter, *http.Request, error)) httpopt.AnswerOption {
		return lockmw.WithErrorHandler(func(c fiber.Ctx, err error) error {
			return serve(c, func(w http.ResponseWriter, r *http.Request) error {
				f(w, r, err)
				return nil
			})
		})
	},
	ReplayHook: func(f func()) httpopt.IdempotentOption {
		return lockmw.WithReplayHook(func(fiber.Ctx) { f() })
	},
}

const requestKey = "request"

// served makes an http.Handler of a fasthttp handler.
type served struct{ handle fasthttp.RequestHandler }

func (s served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c fasthttp.RequestCtx
	var in fasthttp.Request
	in.Header.SetMethod(r.Method)
	in.SetRequestURI(r.URL.RequestURI())
	in.Header.SetHost(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			in.Header.Add(name, v)
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	in.SetBody(body)
	c.Init(&in, nil, nil)
	c.SetUserValue(requestKey, r)
	s.handle(&c)
	for name, value := range c.Response.Header.All() {
		w.Header().Add(string(name), string(value))
	}
	w.WriteHeader(c.Response.StatusCode())
	_, _ = w.Write(c.Response.Body())
}

// serve runs a net/http handler on the request and the response of c.
func serve(c fiber.Ctx, h func(http.ResponseWriter, *http.Request) error) error {
	r, err := http.NewRequestWithContext(c.Context(), c.Method(), c.OriginalURL(), bytes.NewReader(c.BodyRaw()))
	if err != nil {
		return err
	}
	w := writer{c: c, header: http.Header{}}
	defer w.finish()
	return h(w, r)
}

// writer writes to the response of c.
type writer struct {
	c      fiber.Ctx
	header http.Header
}

func (w writer) Header() http.Header         { return w.header }
func (w writer) WriteHeader(status int)      { w.c.Status(status) }
func (w writer) Write(b []byte) (int, error) { return w.c.Write(b) }

func (w writer) finish() {
	for name, values := range w.header {
		for _, v := range values {
			w.c.Response().Header.Add(name, v)
		}
	}
}

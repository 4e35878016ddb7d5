package lockmw_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/fiber"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// counted is a stream that knows how much of it was read.
type counted struct {
	*strings.Reader
	read int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// streamed sends a body that fiber streams to a route with the lock. handled is
// what the handler has read of it.
func streamed(
	t *testing.T, lock fiber.Handler, body string, size int,
) (c *fasthttp.RequestCtx, read int, handled string) {
	t.Helper()
	app := fiber.New(fiber.Config{StreamRequestBody: true})
	var source *counted
	app.Post("/stock/:sku", lock, func(c fiber.Ctx) error {
		read = source.read
		text, err := io.ReadAll(c.Request().BodyStream())
		handled = string(text)
		return err
	})
	source = &counted{Reader: strings.NewReader(body)}
	c = &fasthttp.RequestCtx{}
	c.Request.Header.SetMethod(http.MethodPost)
	c.Request.SetRequestURI("/stock/42")
	c.Request.Header.Set("X-Tenant", "a")
	c.Request.Header.Set("Idempotency-Key", "k")
	c.Request.SetBodyStream(source, size)
	app.Handler()(c)
	return c, max(read, source.read-len(handled)), handled
}

func TestAStreamIsReadForKeysOfTheBodyAlone(t *testing.T) {
	const limit = 1000
	g, bound := newGuard(t), httpopt.WithBodyLimit(limit)
	small, large := `{"sku":"1","x":"`+strings.Repeat("x", 500)+`"}`, `{"sku":"1","x":"`+strings.Repeat("x", 50_000)+`"}`
	greedy := func(r *http.Request) (string, error) {
		_, err := io.Copy(io.Discard, r.Body)
		return "a", err
	}
	careless := func(r *http.Request) (string, error) {
		_, _ = greedy(r)
		return "a", nil
	}
	alone := func(scope string) fiber.Handler {
		return lockmw.Idempotent(g, keyfunc.Static(scope), time.Hour, bound, httpopt.WithoutFingerprint())
	}
	for name, row := range map[string]struct {
		lock       fiber.Handler
		body       string
		size       int // as announced; -1 for chunks
		status     int
		read, most int
	}{
		"header, small":      {lockmw.Key(g, "{header.X-Tenant}", bound), small, len(small), 200, 0, limit + 1},
		"header, large":      {lockmw.Key(g, "{header.X-Tenant}", bound), large, len(large), 200, 0, 0},
		"header, chunks":     {lockmw.Key(g, "{header.X-Tenant}", bound), large, -1, 200, 0, 0},
		"body, small":        {lockmw.Key(g, "{json.sku}", bound), small, len(small), 200, 1, limit + 1},
		"body, chunks":       {lockmw.Key(g, "{json.sku}", bound), small, -1, 200, 1, limit + 1},
		"body, large":        {lockmw.Key(g, "{json.sku}", bound), large, len(large), 413, 1, limit + 1},
		"body, large chunks": {lockmw.Key(g, "{json.sku}", bound), large, -1, 413, 1, limit + 1},
		"a greedy function":  {lockmw.KeyFunc(g, greedy, bound), large, -1, 413, 1, limit + 1},
		"a careless one":     {lockmw.KeyFunc(g, careless, bound), large, -1, 413, 1, limit + 1},
		"idempotent, small": {
			lockmw.Idempotent(g, keyfunc.Header("X-Tenant"), time.Hour, bound), small, -1, 200, 1, limit + 1,
		},
		"idempotent, large": {
			lockmw.Idempotent(g, keyfunc.Header("X-Tenant"), time.Hour, bound), large, len(large), 413, 1, limit + 1,
		},
		"by the key alone, chunks": {alone("1"), large, -1, 200, 0, 0},
		"by the key alone, large":  {alone("2"), large, len(large), 200, 0, 0},
		"by the key alone, small":  {alone("3"), small, len(small), 200, 0, limit + 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, read, handled := streamed(t, row.lock, row.body, row.size)
			if status := c.Response.StatusCode(); status != row.status || read < row.read || read > row.most {
				t.Errorf("got %d %s, want %d; %d bytes were read, want %d to %d", status, c.Response.Body(), row.status,
					read, row.read, row.most)
			}
			done, closed := row.status == http.StatusOK, c.Response.ConnectionClose()
			if done != (handled == row.body) || done == closed {
				t.Errorf("the handler got %d of %d bytes; the connection is closed: %v", len(handled), len(row.body),
					closed)
			}
		})
	}
}

// A body that nobody has read must not be taken for the next request.
func TestAReplayEndsTheConnectionOfAStreamThatNobodyReads(t *testing.T) {
	lock := lockmw.Idempotent(newGuard(t), keyfunc.Static("a"), time.Hour, httpopt.WithoutFingerprint())
	for _, replay := range []bool{false, true} {
		c, _, handled := streamed(t, lock, "text", -1)
		if replay != (c.Response.ConnectionClose() && handled == "") || c.Response.StatusCode() != http.StatusOK {
			t.Errorf("replay %v: %d, the handler got %q, the connection is closed: %v", replay, c.Response.StatusCode(),
				handled, c.Response.ConnectionClose())
		}
	}
}

// asHandled sends a request to a route with the lock, and fails the test if the
// key is not that of the value which the handler sees. It returns the status.
func asHandled(t *testing.T, template string, value func(fiber.Ctx) string, prepare func(*fasthttp.Request)) int {
	t.Helper()
	app := fiber.New()
	app.Post("/", lockmw.Key(newGuard(t), template), func(c fiber.Ctx) error {
		l, _ := guard.LeaseFrom(c)
		if want := guard.Key(value(c)); l.Key() != want {
			t.Errorf("the key is %q, and the handler's value makes %q", l.Key(), want)
		}
		return nil
	})
	var c fasthttp.RequestCtx
	c.Request.Header.SetMethod(http.MethodPost)
	c.Request.SetRequestURI("/")
	prepare(&c.Request)
	app.Handler()(&c)
	return c.Response.StatusCode()
}

func TestAKeyIsMadeOfTheCookieThatTheHandlerSees(t *testing.T) {
	for header, status := range map[string]int{
		"user=ann":                        200,
		`user="ann"`:                      200,
		`user="ann b"; theme="dark`:       200,
		`theme={"a":"b\"}; user=ann`:      200,
		`user=ann"`:                       400,
		`user=an\n`:                       400,
		"user=\xc3\xa4nn":                 400,
		`user="bob; user=ann`:             200, // both readers drop the broken pair
		"user=bob\xff; user=ann":          400,
		"user=ann; user=ann":              400,
		"user=bob; user=ann":              400,
		"User=ann":                        400,
		`user=`:                           400,
		"theme=dark":                      400,
		" user = ann ;":                   200,
		"user=a=b":                        200,
		"user=ann, user=bob":              200,
		"theme=\xff; user=ann; x=\"y\\\"": 200,
	} {
		got := asHandled(t, "{cookie.user}", func(c fiber.Ctx) string { return c.Cookies("user") },
			func(r *fasthttp.Request) { r.Header.Set("Cookie", header) })
		if got != status {
			t.Errorf("%s: got %d, want %d", header, got, status)
		}
	}
}

func TestAKeyIsMadeOfTheFormThatTheHandlerSees(t *testing.T) {
	multi := "--x\r\nContent-Disposition: form-data; name=\"sku\"\r\n\r\n7\r\n--x--\r\n"
	for kind, row := range map[string]struct {
		body   string
		status int
	}{
		"application/x-www-form-urlencoded":                {"sku=7", 200},
		"application/x-www-form-urlencoded; charset=utf-8": {"sku=7", 200},
		"APPLICATION/X-WWW-FORM-URLENCODED":                {"sku=7", 415},
		"multipart/form-data; boundary=x":                  {multi, 200},
		"Multipart/Form-Data; boundary=x":                  {multi, 415},
		"multipart/form-data; BOUNDARY=x":                  {multi, 415},
	} {
		got := asHandled(t, "{form.sku}", func(c fiber.Ctx) string { return c.FormValue("sku") },
			func(r *fasthttp.Request) {
				r.Header.SetContentType(kind)
				r.SetBodyString(row.body)
			})
		if got != row.status {
			t.Errorf("%s: got %d, want %d", kind, got, row.status)
		}
	}
}

// Package same checks that a request gets the same key and the same answer in
// every framework.
package same

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	echo4mw "github.com/go-lockguard/guard/middleware/echo"
	echomw "github.com/go-lockguard/guard/middleware/echov5"
	fibermw "github.com/go-lockguard/guard/middleware/fiber"
	ginmw "github.com/go-lockguard/guard/middleware/gin"
	"github.com/go-lockguard/guard/middleware/httpopt"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// templates are the keys of the routes. Route n is /tN/{sku}, and /once/{sku}
// is idempotent. So is /in/{sku}, at most once, with a lock inside, and
// /chosen/{sku} by a value of the body.
var templates = []string{
	"stock:{sku}", "{sku|int}:{query.v|lower}", "{query.v}", "{header.X-Tenant}", "{cookie.c}", "{form.f}", "{json.j}",
	"{json.j|int}", "{body}", "a:{json.j}:{header.X-Tenant|trim}",
}

var user, j = keyfunc.Header("X-User"), keyfunc.JSON("j")

func atMostOnce(g *guard.Guard) *guard.Guard { return g.With(guard.WithAtMostOnce()) }

// answer is what the handlers of all frameworks answer: what they were asked
// for, with their key.
func answer(r *http.Request, set func(name, value string)) (status int, text string) {
	body, _ := io.ReadAll(r.Body)
	key := ""
	if l, found := guard.LeaseFrom(r.Context()); found {
		key = l.Key()
	}
	for _, name := range []string{"Retry-After", "Location"} {
		if v := r.Header.Get("Want-" + name); v != "" {
			set(name, v)
		}
	}
	status, _ = strconv.Atoi(r.Header.Get("Want-Status"))
	return status, fmt.Sprintf("%q %q %s", key, body, r.Header.Get("Nonce"))
}

// server answers a request.
type server func(*http.Request) (*http.Response, error)

// app is a service in one framework.
type app struct {
	name string
	new  func(g *guard.Guard) server
}

// apps are all frameworks. The others are compared to the first.
var apps = []app{
	{"net/http", func(g *guard.Guard) server {
		mux := http.NewServeMux()
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, text := answer(r, w.Header().Set)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		})
		for i, t := range templates {
			mux.Handle(fmt.Sprintf("/t%d/{sku}", i), lockmw.Key(g, t)(h))
		}
		mux.Handle("/once/{sku}", lockmw.Idempotent(g, user, time.Hour)(h))
		mux.Handle("/in/{sku}", lockmw.Idempotent(atMostOnce(g), user, time.Hour)(lockmw.Key(g, templates[0])(h)))
		mux.Handle("/chosen/{sku}", lockmw.Idempotent(g, user, time.Hour, httpopt.WithFingerprint(j))(h))
		return recorded(mux)
	}},
	{"gin", func(g *guard.Guard) server {
		r := gin.New()
		h := func(c *gin.Context) {
			status, text := answer(c.Request, c.Header)
			c.String(status, "%s", text)
		}
		for i, t := range templates {
			r.Any(fmt.Sprintf("/t%d/:sku", i), ginmw.Key(g, t), h)
		}
		r.Any("/once/:sku", ginmw.Idempotent(g, user, time.Hour), h)
		r.Any("/in/:sku", ginmw.Idempotent(atMostOnce(g), user, time.Hour), ginmw.Key(g, templates[0]), h)
		r.Any("/chosen/:sku", ginmw.Idempotent(g, user, time.Hour, httpopt.WithFingerprint(j)), h)
		return recorded(r)
	}},
	{"echo v4", func(g *guard.Guard) server {
		e := echo4.New()
		h := func(c echo4.Context) error {
			status, text := answer(c.Request(), c.Response().Header().Set)
			return c.String(status, text)
		}
		for i, t := range templates {
			e.Any(fmt.Sprintf("/t%d/:sku", i), h, echo4mw.Key(g, t))
		}
		e.Any("/once/:sku", h, echo4mw.Idempotent(g, user, time.Hour))
		e.Any("/in/:sku", h, echo4mw.Idempotent(atMostOnce(g), user, time.Hour), echo4mw.Key(g, templates[0]))
		e.Any("/chosen/:sku", h, echo4mw.Idempotent(g, user, time.Hour, httpopt.WithFingerprint(j)))
		return recorded(e)
	}},
	{"echo v5", func(g *guard.Guard) server {
		e := echo.New()
		h := func(c *echo.Context) error {
			status, text := answer(c.Request(), c.Response().Header().Set)
			return c.String(status, text)
		}
		for i, t := range templates {
			e.Any(fmt.Sprintf("/t%d/:sku", i), h, echomw.Key(g, t))
		}
		e.Any("/once/:sku", h, echomw.Idempotent(g, user, time.Hour))
		e.Any("/in/:sku", h, echomw.Idempotent(atMostOnce(g), user, time.Hour), echomw.Key(g, templates[0]))
		e.Any("/chosen/:sku", h, echomw.Idempotent(g, user, time.Hour, httpopt.WithFingerprint(j)))
		return recorded(e)
	}},
	{"fiber", func(g *guard.Guard) server {
		a := fiber.New()
		h := func(c fiber.Ctx) error {
			r := &http.Request{Header: c.GetReqHeaders(), Body: io.NopCloser(strings.NewReader(string(c.BodyRaw())))}
			status, text := answer(r.WithContext(c.Context()), c.Set)
			return c.Status(status).SendString(text)
		}
		for i, t := range templates {
			a.All(fmt.Sprintf("/t%d/:sku", i), fibermw.Key(g, t), h)
		}
		a.All("/once/:sku", fibermw.Idempotent(g, user, time.Hour), h)
		a.All("/in/:sku", fibermw.Idempotent(atMostOnce(g), user, time.Hour), fibermw.Key(g, templates[0]), h)
		a.All("/chosen/:sku", fibermw.Idempotent(g, user, time.Hour, httpopt.WithFingerprint(j)), h)
		return func(r *http.Request) (*http.Response, error) { return a.Test(r, fiber.TestConfig{}) }
	}},
}

func recorded(h http.Handler) server {
	return func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result(), nil
	}
}

// got is what a client can see of an answer.
type got struct {
	status            int
	text              string
	replayed, located string
	later             bool
}

func read(t *testing.T, res *http.Response, err error) got {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got{
		res.StatusCode, strings.TrimSpace(string(body)), res.Header.Get("Idempotency-Replayed"),
		res.Header.Get("Location"), res.Header.Get("Retry-After") != "",
	}
}

// draw is a random request.
type draw struct {
	*rand.Rand

	method, target, body string
	header               http.Header
	held                 string // a key that another process has; "" for none
}

func (d *draw) one(values ...string) string { return values[d.IntN(len(values))] }

// some sets a header to one of the values in three of four requests.
func (d *draw) some(name string, values ...string) {
	for range 1 + d.IntN(8)/7 { // twice now and then
		if d.IntN(4) > 0 {
			d.header.Add(name, d.one(values...))
		}
	}
}

func (d *draw) next(nonce int) {
	d.header = http.Header{"Nonce": {strconv.Itoa(nonce)}}
	d.method = d.one("POST", "POST", "POST", "PUT", "PATCH", "DELETE", "GET")
	d.header.Set("Want-Status",
		d.one("200", "200", "201", "303", "401", "404", "409", "422", "429", "499", "500", "503"))
	d.header.Set("Want-Location", "/"+strconv.Itoa(nonce))
	if d.IntN(4) == 0 {
		d.header.Set("Want-Retry-After", "1")
	}
	d.some("X-Tenant", "a", "A", "a b", "a:b", "é", "%61")
	d.some("Cookie", "c=1", "c=1; d=2", `c="1"`, "c=a%20b", "c=1; c=2", "d=2", `c="1`, `c=a\b`, "c=\xff")
	d.some("Content-Type", "application/json", "application/x-www-form-urlencoded", "APPLICATION/JSON", "text/plain",
		"Application/X-WWW-Form-Urlencoded", "application/json; charset=utf-8", "application/problem+json")
	d.body = d.one("", "f=1", "f=1&f=2", "f=%61+b", "f=%zz", "g=1", `{"j":"1"}`, `{"j":1}`, `{"j":9007199254740993}`,
		`{"j":1,"J":2}`,
		`{"j":1.0}`, `{"j":100}`, `{"j":1e2}`, `{"j":1.5}`, `{"j":null}`, `{"j":"é"}`, `[1]`, `{"j":1} x`, strings.Repeat("x", 70_000))
	if d.method == "GET" {
		d.body = ""
	}
	query := d.one("", "?v=1", "?v=1&v=2", "?v=", "?v=%61+B", "?v=1;w=2", "?v=%zz", "?f=1", "?v=1&f=2")
	sku := d.one("42", "42", "007", "+7", "a:b", "%20", "%61b", "a%2Fb", "a%252Fb", "%E4%B8%AD", "100%25", "-1")
	d.target = fmt.Sprintf("/t%d/%s%s", d.IntN(len(templates)), sku, query)
	d.held = d.one("", "", "", guard.Key("stock", "42"), guard.Key("a"), guard.Key("1"))
	if d.IntN(3) == 0 { // the same requests again and again
		d.again(strconv.Itoa(nonce / 300))
	}
}

// again makes d a request to an idempotent route, with a key of the group.
func (d *draw) again(group string) {
	route := d.one("once", "in", "chosen")
	d.method = d.one("POST", "POST", "POST", "POST", "PUT", "GET")
	d.target = "/" + route + "/" + d.one("42", "42", "42", "43")
	d.body = d.one("x", "x", "x", "y", "")
	d.header["Content-Type"] = []string{d.one("text/plain", "text/plain", "TEXT/plain; charset=utf-8", "text/csv")}
	if route == "chosen" {
		d.body = d.one(`{"j":1}`, `{"j":1}`, `{"j": 1.0, "k": 2}`, `{"j":2}`, "{}")
		d.header["Content-Type"] = []string{"application/json"}
	}
	d.target = d.one("", "", "", "http://EXAMPLE.com:81", "http://b.example") + d.target
	d.header.Set("X-User", d.one("ann", "ann", "bob"))
	group = route + group
	d.some("Idempotency-Key", group, group, group, group, group, group, `"`+group+`"`, "k 1", "")
}

// mayDiffer reports whether the framework is known to answer d in another way
// than net/http does, as its package says. Routers differ about escapes in
// paths. fasthttp reads some cookies, forms and headers in another way, and
// then the request is refused.
func (d *draw) mayDiffer(name string, want, have got) bool {
	path, _, _ := strings.Cut(d.target, "?")
	refused := have.status == 400 || have.status == 404 || have.status == 415
	switch {
	case strings.Contains(path, "%") && refused:
		return true
	case name != "fiber":
		return false
	case len(d.header["Cookie"]) > 1, len(d.header["Content-Type"]) > 1:
		return true // the connection joins them
	case have.status == 422 && strings.HasPrefix(d.header.Get("Content-Type"), "Application/X"):
		return true // such a form is not one that fasthttp reads
	}
	_, bad := url.ParseQuery(d.body)
	cookies := strings.Join(d.header["Cookie"], "")
	return refused && (strings.ContainsAny(cookies, `"\`) || !utf8.ValidString(cookies) || bad != nil ||
		strings.HasPrefix(d.header.Get("Content-Type"), "Application/X")) && want.status != have.status
}

func TestOneRequestHasOneAnswerInAllFrameworks(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, problem := range compare(t, apps, testsize.Pick(10_000, 1000), seed) {
		t.Error(problem)
	}
}

// The planted faults: net/http with another key, and with another answer.
func TestAnAppWithAFaultIsFound(t *testing.T) {
	sound := apps[0]
	for name, fault := range map[string]func(*http.Request){
		"another key":    func(r *http.Request) { r.Header.Set("X-Tenant", strings.ToLower(r.Header.Get("X-Tenant"))) },
		"another status": func(r *http.Request) { r.Header.Set("Want-Status", "200") },
		"one host":       func(r *http.Request) { r.Host = "example.com" },
		"runs again":     func(r *http.Request) { r.Header.Set("Idempotency-Key", r.Header.Get("Nonce")) },
	} {
		faulty := app{name, func(g *guard.Guard) server {
			serve := sound.new(g)
			return func(r *http.Request) (*http.Response, error) {
				fault(r)
				return serve(r)
			}
		}}
		if problems := compare(t, []app{sound, sound, faulty}, 5000, 1); len(problems) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
}

// compare sends requests to all apps, until there is a difference.
func compare(t *testing.T, apps []app, requests int, seed uint64) (problems []string) {
	t.Helper()
	var others []*guard.Guard // in another process, one for each app
	var serve []server
	for _, app := range apps {
		store := memlocker.New()
		serve = append(serve, app.new(newGuard(t, store)))
		// On a machine that stops this process a release may come late.
		others = append(others, newGuard(t, store.Peer()).With(guard.WithMaxWait(time.Minute)))
	}
	d := &draw{Rand: rand.New(rand.NewPCG(seed, 0))}
	ran, refused, replays := 0, 0, 0
	for nonce := 0; nonce < requests && problems == nil; nonce++ {
		d.next(nonce)
		var want got
		for i, app := range apps {
			have := d.send(t, serve[i], others[i])
			if i == 0 {
				want = have
			} else if have != want && !d.mayDiffer(app.name, want, have) {
				problems = append(problems, fmt.Sprintf("%s %s %v %.60q:\n%s: %+v\n%s: %+v", d.method, d.target,
					d.header, d.body, app.name, have, apps[0].name, want))
			}
		}
		switch {
		case want.replayed != "":
			replays++
		case strings.HasPrefix(want.text, `"`):
			ran++
		default:
			refused++
		}
	}
	t.Logf("%d ran, %d were refused, %d replayed", ran, refused, replays)
	if problems == nil && (ran == 0 || refused == 0 || replays == 0) {
		t.Error("the requests try nothing")
	}
	return problems
}

func newGuard(t *testing.T, l guard.Locker) *guard.Guard {
	t.Helper()
	g, err := guard.New(l, guard.WithMaxWait(0), guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	return g
}

// send sends d to an app, while another process holds a key if d says so.
func (d *draw) send(t *testing.T, serve server, other *guard.Guard) got {
	t.Helper()
	if d.held != "" {
		l, err := other.Acquire(t.Context(), d.held)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Release(t.Context()) }()
	}
	r := httptest.NewRequestWithContext(t.Context(), d.method, d.target, strings.NewReader(d.body))
	r.Header = d.header.Clone()
	res, err := serve(r)
	return read(t, res, err)
}

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
	"github.com/go-lockguard/guard/middleware/httpopt"
	"github.com/go-lockguard/guard/outcome"
)

func init() { gin.SetMode(gin.ReleaseMode) }

// The same order of the same session within 5 s is refused, unless the first
// one failed.
func Example_doubleSubmit() {
	g, end := open()
	defer end()
	answers := []int{http.StatusInternalServerError, http.StatusCreated}
	order := func(c *gin.Context) {
		c.Status(answers[0])
		answers = answers[1:]
	}
	r := gin.New()

	once := g.With(guard.WithMaxWait(0), guard.WithMinHold(5*time.Second, guard.OnSuccess)) // at start-up, once
	r.POST("/orders", lockmw.Key(once, "order:{cookie.session}:{body}"), order)

	for _, body := range []string{"2 apples", "2 apples", "2 apples"} {
		req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/orders", strings.NewReader(body))
		req.AddCookie(&http.Cookie{Name: "session", Value: "ann"})
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		fmt.Println(w.Code)
	}
	// Output:
	// 500
	// 201
	// 409
}

// Readers of a document come in together, and a writer does not.
func Example_readers() {
	g, end := open()
	defer end()
	g = g.With(guard.WithMaxWait(0))
	r := gin.New()
	answer := func(method, path string) int {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), method, path, http.NoBody))
		return w.Code
	}
	show := func(c *gin.Context) {
		if c.Query("second") == "" {
			fmt.Println("another reader:", answer(http.MethodGet, "/docs/7?second=1"))
			fmt.Println("a writer:", answer(http.MethodPut, "/docs/7"))
		}
	}
	change, run := func(*gin.Context) {}, func(*gin.Context) {}

	read, export := g.With(guard.WithShared()), g.With(guard.WithPermits(3))
	r.GET("/docs/:id", lockmw.Key(read, "doc:{id}"), show)
	r.PUT("/docs/:id", lockmw.Key(g, "doc:{id}"), change)
	r.POST("/exports", lockmw.Static(export, "exports"), run)

	answer(http.MethodGet, "/docs/7")
	fmt.Println("when they have gone:", answer(http.MethodPut, "/docs/7"), answer(http.MethodPost, "/exports"))
	// Output:
	// another reader: 200
	// a writer: 409
	// when they have gone: 200 200
}

// A cart is locked with all its items and its user.
func Example_cart() {
	g, end := open()
	defer end()
	r := gin.New()
	order := func(c *gin.Context) {
		l, _ := guard.LeaseOf(c.Request.Context(), guard.Key("stock", "apple"))
		c.String(http.StatusCreated, l.Key())
	}

	r.POST("/cart", lockmw.Keys(g, "stock:{json.items[].sku}", "user:{header.X-User}"), order)

	for _, items := range []string{`[{"sku": "pear"}, {"sku": "apple"}, {"sku": "pear"}]`, `[]`} {
		req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/cart",
			strings.NewReader(`{"items": `+items+`}`))
		req.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 201 stock:apple
	// 400 {"type":"about:blank","title":"Bad Request","status":400,"detail":"The JSON member \"items[]\", which names the resource to lock, is missing or empty.","code":"lock_key_invalid"}
}

// reply is the one form of all answers.
func reply(c *gin.Context, status int, msg string, data any) {
	c.Header("Content-Type", "application/json; charset=utf-8")
	c.JSON(status, gin.H{"code": status, "msg": msg, "data": data})
}

// envelope answers what a lock has to say.
func envelope(c *gin.Context, err error) {
	o, ours := outcome.Of(c.Request.Context(), err)
	switch {
	case !ours: // of a key function itself, and in the log
		reply(c, http.StatusInternalServerError, "Something went wrong.", nil)
	case o.Code != "": // else the client has gone
		o.Prepare(c.Writer.Header()) // Retry-After
		reply(c, o.Status, o.Detail, nil)
	}
}

func buy(c *gin.Context) {
	if c.Param("sku") == "1" {
		reply(c, http.StatusUnprocessableEntity, "sold out", nil)
		return
	}
	reply(c, http.StatusOK, "ok", gin.H{"sku": c.Param("sku")})
}

func authenticate(c *gin.Context) {
	if c.GetHeader("Authorization") == "" {
		reply(c, http.StatusUnauthorized, "Log in first.", nil)
		c.Abort()
	}
}

// leftErrors answers what a handler has only given to c.Error: gin itself would
// answer 200.
func leftErrors(c *gin.Context) {
	c.Next()
	if last := c.Errors.Last(); last != nil && !c.Writer.Written() && !lockmw.Abort(c, last.Err) {
		reply(c, http.StatusInternalServerError, "Something went wrong.", nil)
	}
}

// shopOf is a whole service. tenant is a key function that may fail.
func shopOf(g *guard.Guard, tenant func(*gin.Context) (string, error)) *gin.Engine {
	r := gin.New()
	gin.DefaultErrorWriter = io.Discard

	r.Use(gin.CustomRecovery(func(c *gin.Context, _ any) {
		reply(c, http.StatusInternalServerError, "Something went wrong.", nil)
	}))
	r.NoRoute(func(c *gin.Context) { reply(c, http.StatusNotFound, "No such page.", nil) })
	r.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope))) // once, for all locks and lockmw.Abort

	r.Use(leftErrors, authenticate)
	r.POST("/skus/:sku/buy", lockmw.Key(g, "stock:{sku|maxlen=8}"), buy)
	r.POST("/skus/:sku/count", lockmw.KeyFrom(g, tenant), buy)

	r.POST("/panic", lockmw.Static(g, "a"), func(*gin.Context) { panic("own") })
	r.POST("/own", lockmw.Static(g, "b"), func(c *gin.Context) { _ = c.Error(errors.New("own")) })
	r.POST("/busy", lockmw.Static(g, "c"), func(c *gin.Context) { _ = c.Error(&guard.HeldError{}) })
	return r
}

func ask(r http.Handler, target string, header ...string) {
	req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, target, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	again := ""
	if w.Header().Get("Retry-After") != "" {
		again = " and Retry-After"
	}
	fmt.Println(w.Code, w.Body.String()+again)
}

func Example_envelope() {
	store := memlocker.New()
	g, err := guard.New(store, guard.WithMaxWait(0), guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	defer func() { _ = g.Close(context.Background()) }()
	r := shopOf(g, func(*gin.Context) (string, error) { return "", errors.New("no tenant") })
	const who = "Authorization"

	ask(r, "/skus/7/buy", who, "ann")
	ask(r, "/skus/1/buy", who, "ann")
	ask(r, "/skus/7/buy")
	_ = g.Do(context.Background(), guard.Key("stock", 7), func(context.Context) error {
		ask(r, "/skus/7/buy", who, "ann")
		return nil
	})
	ask(r, "/skus/123456789/buy", who, "ann")
	ask(r, "/skus/7/count", who, "ann")
	mend := store.Break()
	ask(r, "/skus/7/buy", who, "ann")
	mend()
	for _, target := range []string{"/nowhere", "/panic", "/own", "/busy"} {
		ask(r, target, who, "ann")
	}
	// Output:
	// 200 {"code":200,"data":{"sku":"7"},"msg":"ok"}
	// 422 {"code":422,"data":null,"msg":"sold out"}
	// 401 {"code":401,"data":null,"msg":"Log in first."}
	// 409 {"code":409,"data":null,"msg":"Another request is working on the same resource. Try again later."} and Retry-After
	// 400 {"code":400,"data":null,"msg":"The path parameter \"sku\", which names the resource to lock, is malformed."}
	// 500 {"code":500,"data":null,"msg":"Something went wrong."}
	// 503 {"code":503,"data":null,"msg":"The lock service cannot answer. Try again later."} and Retry-After
	// 404 {"code":404,"data":null,"msg":"No such page."}
	// 500 {"code":500,"data":null,"msg":"Something went wrong."}
	// 500 {"code":500,"data":null,"msg":"Something went wrong."}
	// 409 {"code":409,"data":null,"msg":"Another request is working on the same resource. Part of the request may have been carried out; check before trying again."}
}

func routes(g *guard.Guard) http.Handler {
	r := gin.New()
	r.Use(lockmw.Answers(httpopt.WithHeldStatus(http.StatusLocked)))
	r.POST("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), buy)
	r.POST("/wrong/:sku/deduct", buy, lockmw.Key(g, "stock:{sku}")) // the lock comes after the handler
	return r
}

func TestDeductIsLocked(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	g.Hold(guard.Key("stock", "4711"))
	w := httptest.NewRecorder()
	routes(g.Guard).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/skus/4711/deduct", nil))
	if w.Code != http.StatusLocked { // 409 without WithHeldStatus
		t.Errorf("answered %d: the lock does not stand before the handler", w.Code)
	}
}

// The recipe finds a lock in the wrong place: the planted one answers 200.
func TestALockAfterItsHandlerIsFound(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	g.Hold(guard.Key("stock", "4711"))
	w := httptest.NewRecorder()
	routes(g.Guard).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/wrong/4711/deduct", nil))
	if w.Code == http.StatusLocked {
		t.Error("the planted mistake is not found")
	}
}

// What people copy has a ReadTimeout. The flash sale shows no server to copy.
func TestEveryServerToCopyHasAReadTimeout(t *testing.T) {
	pages := []string{"../README.md", "../README.zh-CN.md", "../llms.txt"}
	if err := filepath.WalkDir("../examples", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && d.Name() == "flashsale" {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			pages = append(pages, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		has := func(part string) bool { return strings.Contains(string(text), part) }
		serves := has("http.Server{") || has("fiber.New(")
		if serves {
			seen++
		}
		if serves && !has("ReadTimeout: ") || has("http.ListenAndServe(") {
			t.Errorf("%s has a server without a ReadTimeout", page)
		}
	}
	if seen < 8 {
		t.Errorf("found %d servers", seen)
	}
}

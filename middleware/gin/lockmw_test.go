package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

func mount(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
	chain := verbs.Chain(g, locks...)
	chain = append(chain, func(c *gin.Context) {
		if err := h(c.Writer, c.Request); err != nil && !lockmw.Abort(c, err) {
			c.Status(http.StatusTeapot)
		}
	})
	r := gin.New()
	r.Any("/stock/:sku", chain...)
	r.Handle("QUERY", "/stock/:sku", chain...)
	return r
}

var verbs = lockmwtest.Verbs[gin.HandlerFunc]{
	Answers: lockmw.Answers, Key: lockmw.Key, Static: lockmw.Static, KeyFunc: lockmw.KeyFunc, Keys: lockmw.Keys,
	KeysFunc: lockmw.KeysFunc, Idempotent: lockmw.Idempotent, SkipSafe: lockmw.WithSkipper(lockmw.SafeMethods),
	OnError: func(f func(http.ResponseWriter, *http.Request, error)) httpopt.AnswerOption {
		return lockmw.WithErrorHandler(func(c *gin.Context, err error) { f(c.Writer, c.Request, err) })
	},
	ReplayHook: func(f func()) httpopt.IdempotentOption {
		return lockmw.WithReplayHook(func(*gin.Context) { f() })
	},
}

var adapter = lockmwtest.Adapter{Mount: mount}

func TestTheTable(t *testing.T) { lockmwtest.Run(t, adapter) }

func TestTheTableOfIdempotent(t *testing.T) { lockmwtest.RunIdempotent(t, adapter) }

func BenchmarkOverhead(b *testing.B) { lockmwtest.Bench(b, adapter) }

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

// serve sends req to an engine whose route POST /stock/:sku/buy has this chain.
func serve(req *http.Request, chain ...gin.HandlerFunc) *httptest.ResponseRecorder {
	r := gin.New()
	r.POST("/stock/:sku/buy", chain...)
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

func buy(sku string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/stock/"+sku+"/buy", nil)
}

func never(t *testing.T) gin.HandlerFunc {
	t.Helper()
	return func(*gin.Context) { t.Error("the handler ran") }
}

func TestTheContextItselfCarriesTheLease(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	middleware := lockmw.Key(g, "stock:{sku}")
	after := func(c *gin.Context) {
		c.Next()
		if _, found := guard.LeaseFrom(c); found {
			t.Error("the lease is still there after the middleware")
		}
	}
	ran := false
	serve(buy("42"), after, middleware, func(c *gin.Context) {
		if err := g.Do(c, guard.Key("stock", c.Param("sku")),
			func(context.Context) error { ran = true; return nil }); err != nil {
			t.Error(err)
		}
	})
	if !ran {
		t.Error("the service did not run")
	}
}

func TestAnEmptyPathParameterIsTheClientsMistake(t *testing.T) {
	if w := serve(buy(""), lockmw.Key(newGuard(t), "stock:{sku}"), never(t)); w.Code != http.StatusBadRequest {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A copy is for work that outlives the request.
func TestWorkOnACopyOutlivesTheRequest(t *testing.T) {
	g := newGuard(t)
	done := make(chan error, 1)
	served := make(chan struct{})
	r := gin.New()
	r.POST("/", lockmw.Static(g, "all"), func(c *gin.Context) {
		on := c.Copy()
		go func() {
			<-served
			done <- g.Do(on, "other", func(ctx context.Context) error { return ctx.Err() })
		}()
	})
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
	close(served)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTheRequestIsRestored(t *testing.T) {
	body := strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"a\"; " +
		"filename=\"a\"\r\n\r\ncontent\r\n--x--\r\n")
	req := httptest.NewRequest(http.MethodPost, "/stock/42/buy", body)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	var form *multipart.Form
	serve(req, func(c *gin.Context) {
		before := c.Request
		c.Next()
		if c.Request != before {
			t.Error("outer middleware sees the inner request")
		}
	}, lockmw.Key(newGuard(t), "stock:{sku}"), func(c *gin.Context) {
		if _, err := c.FormFile("a"); err != nil {
			t.Error(err)
		}
		form = c.Request.MultipartForm
	})
	if form == nil || req.MultipartForm != form {
		t.Error("the server will not find the temporary files of the form")
	}
}

func TestTheErrorHandlerCannotLetTheHandlerRun(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("stock", "42"))
	own := lockmw.WithErrorHandler(func(c *gin.Context, _ error) { c.Next() })
	if w := serve(buy("42"), lockmw.Key(g, "stock:{sku}", own), never(t)); w.Code != http.StatusConflict {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestAbortLeavesOtherErrorsAlone(t *testing.T) {
	for _, err := range []error{
		nil, errors.New("own"), context.Canceled,
		fmt.Errorf("query: %w", context.DeadlineExceeded),
	} {
		ran := false
		w := serve(buy("42"), func(c *gin.Context) {
			if lockmw.Abort(c, err) || c.IsAborted() || c.Writer.Written() || c.Writer.Status() != http.StatusOK {
				t.Errorf("%v was answered", err)
			}
		}, func(*gin.Context) { ran = true })
		if !ran || w.Body.Len() > 0 {
			t.Errorf("%v ended the chain", err)
		}
	}
}

func TestAbortAfterTheFirstByteWritesNothing(t *testing.T) {
	w := serve(buy("42"), func(c *gin.Context) {
		c.String(http.StatusOK, "done")
		if !lockmw.Abort(c, guard.ErrLeaseLost) || !c.IsAborted() {
			t.Error("the chain goes on")
		}
	}, never(t))
	if w.Code != http.StatusOK || w.Body.String() != "done" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestOnlyErrorsThatAreNotOursBecomeGinErrors(t *testing.T) {
	own := errors.New("own")
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("42"))
	for _, c := range []struct {
		name   string
		key    func(*gin.Context) (string, error)
		status int
		errors int
	}{
		{
			"held", func(c *gin.Context) (string, error) { return guard.Key(c.Param("sku")), nil },
			http.StatusConflict, 0,
		},
		{
			"the key function's own", func(*gin.Context) (string, error) { return "", own },
			http.StatusInternalServerError, 1,
		},
		{"the key function's own, answered", func(c *gin.Context) (string, error) {
			c.AbortWithStatus(http.StatusUnprocessableEntity)
			return "", own
		}, http.StatusUnprocessableEntity, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := serve(buy("42"), func(ctx *gin.Context) {
				ctx.Next()
				if len(ctx.Errors) != c.errors || c.errors > 0 && !errors.Is(ctx.Errors.Last(), own) {
					t.Errorf("got c.Errors %v", ctx.Errors)
				}
			}, lockmw.KeyFrom(g, c.key), never(t))
			if w.Code != c.status {
				t.Errorf("got %d, want %d", w.Code, c.status)
			}
		})
	}
}

func TestALockInEngineUse(t *testing.T) {
	g := newGuard(t)
	health := lockmw.WithSkipper(func(c *gin.Context) bool { return c.FullPath() == "/healthz" })
	for _, c := range []struct {
		name           string
		lock           gin.HandlerFunc
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
		r := gin.New()
		r.HandleMethodNotAllowed = true
		r.Use(c.lock)
		done := func(c *gin.Context) { c.Status(http.StatusNoContent) }
		r.POST("/stock/:sku", done)
		r.GET("/healthz", done)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
		if w.Code != c.status || w.Code == http.StatusNotFound && w.Body.String() != "404 page not found" {
			t.Errorf("%s: %s %s: got %d %s, want %d", c.name, c.method, c.target, w.Code, w.Body, c.status)
		}
	}
}

func TestALockWithoutAnyRouterIsOurMistake(t *testing.T) {
	w := httptest.NewRecorder()
	c, _ := gin.CreateTestContext(w)
	c.Request = buy("42")
	lockmw.Key(newGuard(t), "stock:{sku}")(c)
	if !c.IsAborted() || w.Code != http.StatusInternalServerError {
		t.Errorf("got %d, aborted %v", w.Code, c.IsAborted())
	}
}

// The values that verbs look up to notice the end of a request by its
// gin.Context.
func TestTheContextItselfSaysThatItNeverEnds(t *testing.T) {
	endless := func(c *gin.Context) bool { return c.Value(ctxkey.Endless) == c.Value(gin.ContextKey) }
	serve(buy("42"), func(c *gin.Context) {
		c.Next()
		if endless(c) {
			t.Error("it says so after the lease")
		}
	}, lockmw.Key(newGuard(t), "stock:{sku}"), lockmw.Static(newGuard(t), "inner"), func(c *gin.Context) {
		work, end := context.WithCancel(t.Context())
		ctx := ctxkey.Ending(c, work)
		end()
		<-ctx.Done()
		if !endless(c) || endless(c.Copy()) {
			t.Error("a lease is carried by the gin.Context itself, and not by a copy")
		}
	})
}

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) {
	lockmwtest.RunSockets(t, adapter)
}

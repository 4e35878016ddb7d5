package lockmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
	"github.com/go-lockguard/guard/outcome"
)

func ExampleKey() {
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(0)) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	sell := func(ctx context.Context, sku string) error { return ctx.Err() } // ctx ends when the lease is lost

	r := gin.New()
	r.POST("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), func(c *gin.Context) {
		if err := sell(c.Request.Context(), c.Param("sku")); lockmw.Abort(c, err) { // not c, which never ends
			return
		}
		c.String(http.StatusOK, "bought %s", c.Param("sku"))
	})

	buy := func(sku string) {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/stock/"+sku+"/buy", nil))
		fmt.Println(w.Code, w.Body)
	}
	buy("42")
	_ = g.Do(context.Background(), guard.Key("stock", "42"), func(context.Context) error { // the same key, in a service
		buy("42")
		return nil
	})
	// Output:
	// 200 bought 42
	// 409 {"type":"about:blank","title":"Conflict","status":409,"detail":"Another request is working on the same resource. Try again later.","code":"lock_held"}
}

func ExampleAbort() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	r := gin.New()
	r.POST("/orders/:id/pay", func(c *gin.Context) {
		err := g.Do(c.Request.Context(), guard.Key("order", c.Param("id")), func(context.Context) error {
			c.String(http.StatusOK, "paid")
			return nil
		})
		if lockmw.Abort(c, err) { // held, unavailable and so on, answered as by the middleware
			return
		}
		if err != nil {
			c.String(http.StatusInternalServerError, "sorry")
		}
	})

	_ = g.Close(context.Background()) // as during a shutdown
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output:
	// 503 application/problem+json
}

// An empty key is a server error (500), unless the handler says that it is the
// client's.
func ExampleAbort_emptyValue() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())
	r := gin.New()
	r.POST("/pay", func(c *gin.Context) {
		order := c.Query("order")
		if order == "" {
			lockmw.Abort(c, &keyfunc.Error{Source: "query", Name: "order", Err: keyfunc.ErrMissing})
			return
		}
		_ = lockmw.Abort(c, g.Do(c.Request.Context(), guard.Key("order", order),
			func(context.Context) error { return nil }))
	})

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pay", nil))
	fmt.Println(w.Code, w.Body)
	// Output:
	// 400 {"type":"about:blank","title":"Bad Request","status":400,"detail":"The query parameter \"order\", which names the resource to lock, is missing or empty.","code":"lock_key_invalid"}
}

// The application's own envelope instead of problem details.
func ExampleWithErrorHandler() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	envelope := lockmw.WithErrorHandler(func(c *gin.Context, err error) {
		o, ours := outcome.Of(c.Request.Context(), err)
		switch {
		case !ours: // a key function's own error error, which is in the log
			o.Status, o.Detail = http.StatusInternalServerError, "Something went wrong."
		case o.Code == "":
			return // the client has gone: only the status is sent
		}
		o.Prepare(c.Writer.Header()) // Retry-After
		c.Header("Content-Type", "application/json")
		c.JSON(o.Status, gin.H{"code": o.Status, "msg": o.Detail})
	})
	r := gin.New()
	r.Use(lockmw.Answers(envelope)) // once for all routes
	r.POST("/buy", lockmw.Key(g, "stock:{query.sku}"), func(c *gin.Context) {})

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/buy", nil))
	fmt.Println(w.Code, w.Body)
	// Output:
	// 400 {"code":400,"msg":"The query parameter \"sku\", which names the resource to lock, is missing or empty."}
}

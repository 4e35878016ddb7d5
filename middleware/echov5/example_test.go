package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/echov5"
	"github.com/go-lockguard/guard/outcome"
)

func ExampleKey() {
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(0)) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	e := echo.New()
	e.POST("/stock/:sku/buy", func(c *echo.Context) error {
		return c.String(http.StatusOK, "bought "+c.Param("sku"))
	}, lockmw.Key(g, "stock:{sku}"))

	buy := func(sku string) {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/stock/"+sku+"/buy", nil))
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

// The application's own error handler writes its own envelope instead of
// problem details.
func ExampleKey_errorHandler() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	e := echo.New()
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		code, msg := http.StatusInternalServerError, "sorry"
		var he *echo.HTTPError
		if errors.As(err, &he) {
			code, msg = he.Code, he.Message // a lock's answer is read like any other
		}
		if r, _ := echo.UnwrapResponse(c.Response()); !r.Committed {
			_ = c.JSON(code, map[string]any{"code": code, "msg": msg})
		}
	}
	e.POST("/buy", notFound, lockmw.Key(g, "stock:{query.sku}"))

	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/buy", nil))
	fmt.Println(w.Code, w.Body)
	// Output:
	// 400 {"code":400,"msg":"The query parameter \"sku\", which names the resource to lock, is missing or empty."}
}

// The same for the errors of locks only.
func ExampleWithErrorHandler() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	envelope := lockmw.WithErrorHandler(func(c *echo.Context, err error) error {
		o, ours := outcome.Of(c.Request().Context(), err)
		if !ours {
			return err // a key function's own error
		}
		if o.Code == "" {
			return nil // the client has gone: only the status is sent
		}
		o.Prepare(c.Response().Header()) // Retry-After
		c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		return c.JSON(o.Status, map[string]any{"code": o.Status, "msg": o.Detail})
	})
	e := echo.New()
	e.Use(lockmw.Answers(envelope)) // once for all routes
	e.POST("/buy", notFound, lockmw.Key(g, "stock:{query.sku}"))

	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/buy", nil))
	fmt.Println(w.Code, w.Body)
	// Output:
	// 400 {"code":400,"msg":"The query parameter \"sku\", which names the resource to lock, is missing or empty."}
}

func ExampleError() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	e := echo.New()
	e.POST("/orders/:id/pay", func(c *echo.Context) error {
		err := g.Do(c.Request().Context(), guard.Key("order", c.Param("id")), func(context.Context) error {
			return c.String(http.StatusOK, "paid")
		})
		return lockmw.Error(err) // held, unavailable and so on, answered as by the middleware
	})

	_ = g.Close(context.Background()) // as during a shutdown
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil))
	fmt.Println(w.Code)
	// Output:
	// 503
}

func notFound(*echo.Context) error { return echo.ErrNotFound }

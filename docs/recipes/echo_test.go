package recipes_test

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
)

// The lines for echo.

func echoLogin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Set("user", c.Request().Header.Get("X-User"))
		return next(c)
	}
}

func echoSubmit(once *guard.Guard, h http.HandlerFunc) http.Handler {
	e, login, order := echo.New(), echoLogin, echo.WrapHandler(h)

	perUser := func(c echo.Context) (string, error) {
		return guard.Key("submit", c.Path(), c.Get("user")), nil
	}
	e.POST("/orders", order, login, lockmw.KeyFrom(once, perUser))

	e.POST("/guests/orders", order, lockmw.Key(once, "order:{cookie.session}:{body}"))
	return e
}

func echoEnvelope(g *guard.Guard, key keyfunc.Func, order http.HandlerFunc) http.Handler {
	e := echo.New()

	e.Use(lockmw.Answers(lockmw.WithErrorHandler(func(c echo.Context, err error) error {
		return c.JSON(refusal(c.Request().Context(), c.Response().Header(), err))
	})))

	e.POST("/skus/:sku/orders", echo.WrapHandler(order), lockmw.Key(g, "stock:{sku|int}"))
	e.POST("/own", echo.WrapHandler(order), lockmw.KeyFunc(g, key))
	return e
}

func echoAlways200(g *guard.Guard, order http.HandlerFunc) http.Handler {
	e := echo.New()
	e.Use(lockmw.Answers(lockmw.WithErrorHandler(func(c echo.Context, err error) error {
		return c.JSON(always200(refusal(c.Request().Context(), c.Response().Header(), err)))
	})))
	e.POST("/skus/:sku/orders", echo.WrapHandler(order), lockmw.Key(g, "stock:{sku|int}"))
	return e
}

func echoCart(g *guard.Guard, h http.HandlerFunc) http.Handler {
	e, login, cart := echo.New(), echoLogin, echo.WrapHandler(h)

	user := func(c echo.Context) (string, error) { return guard.Key("user", c.Get("user")), nil }
	mine := e.Group("/cart", login, lockmw.KeyFrom(g, user, lockmw.WithSkipper(lockmw.SafeMethods)))
	mine.GET("", cart)
	mine.POST("", cart)
	return e
}

func echoArticles(a articles) http.Handler {
	e := echo.New()
	e.GET("/articles/:id", func(c echo.Context) error {
		a.get(c.Response(), c.Request(), c.Param("id"))
		return nil
	})
	e.PUT("/articles/:id", func(c echo.Context) error {
		a.put(c.Response(), c.Request(), c.Param("id"))
		return nil
	})
	return e
}

func echoExports(s *exports) http.Handler {
	e, login := echo.New(), echoLogin
	e.POST("/exports/:tenant", func(c echo.Context) error {
		s.start(c.Response(), c.Request(), c.Param("tenant"))
		return nil
	}, login)
	e.GET("/exports/:tenant", func(c echo.Context) error {
		s.state(c.Response(), c.Request(), c.Param("tenant"))
		return nil
	}, login)
	return e
}

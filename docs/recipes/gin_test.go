package recipes_test

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

// The lines for gin.

func ginLogin(c *gin.Context) { c.Set("user", c.GetHeader("X-User")) }

func ginSubmit(once *guard.Guard, h http.HandlerFunc) http.Handler {
	r, login, order := gin.New(), ginLogin, gin.WrapF(h)

	perUser := func(c *gin.Context) (string, error) {
		return guard.Key("submit", c.FullPath(), c.GetString("user")), nil
	}
	r.POST("/orders", login, lockmw.KeyFrom(once, perUser), order)

	r.POST("/guests/orders", lockmw.Key(once, "order:{cookie.session}:{body}"), order)
	return r
}

func ginEnvelope(g *guard.Guard, key keyfunc.Func, order http.HandlerFunc) http.Handler {
	r := gin.New()

	r.Use(lockmw.Answers(lockmw.WithErrorHandler(func(c *gin.Context, err error) {
		c.JSON(refusal(c.Request.Context(), c.Writer.Header(), err))
	})))

	r.POST("/skus/:sku/orders", lockmw.Key(g, "stock:{sku|int}"), gin.WrapF(order))
	r.POST("/own", lockmw.KeyFunc(g, key), gin.WrapF(order))
	return r
}

func ginAlways200(g *guard.Guard, order http.HandlerFunc) http.Handler {
	r := gin.New()
	r.Use(lockmw.Answers(lockmw.WithErrorHandler(func(c *gin.Context, err error) {
		c.JSON(always200(refusal(c.Request.Context(), c.Writer.Header(), err)))
	})))
	r.POST("/skus/:sku/orders", lockmw.Key(g, "stock:{sku|int}"), gin.WrapF(order))
	return r
}

func ginCart(g *guard.Guard, h http.HandlerFunc) http.Handler {
	r, login, cart := gin.New(), ginLogin, gin.WrapF(h)

	user := func(c *gin.Context) (string, error) { return guard.Key("user", c.GetString("user")), nil }
	mine := r.Group("/cart", login, lockmw.KeyFrom(g, user, lockmw.WithSkipper(lockmw.SafeMethods)))
	mine.GET("", cart)
	mine.POST("", cart)
	return r
}

func ginArticles(a articles) http.Handler {
	r := gin.New()
	r.GET("/articles/:id", func(c *gin.Context) { a.get(c.Writer, c.Request, c.Param("id")) })
	r.PUT("/articles/:id", func(c *gin.Context) { a.put(c.Writer, c.Request, c.Param("id")) })
	return r
}

func ginExports(s *exports) http.Handler {
	r, login := gin.New(), ginLogin
	r.POST("/exports/:tenant", login, func(c *gin.Context) { s.start(c.Writer, c.Request, c.Param("tenant")) })
	r.GET("/exports/:tenant", login, func(c *gin.Context) { s.state(c.Writer, c.Request, c.Param("tenant")) })
	return r
}

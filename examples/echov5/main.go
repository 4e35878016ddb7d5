// One line on a route of echo v5. It needs a Redis on localhost:6379.
package main

import (
	"log"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/echov5"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(app(g, deduct).Start(":8080"))
}

func app(g *guard.Guard, deduct echo.HandlerFunc) *echo.Echo {
	e := echo.New()
	e.Use(middleware.Recover())
	e.POST("/skus/:sku/deduct", deduct, lockmw.Key(g, "stock:{sku}"))
	e.POST("/skus/:sku/price", deduct, lockmw.Key(g, "stock:{sku}")) // another route, the same key
	return e
}

func deduct(c *echo.Context) error {
	// Alone with this sku, until c.Request().Context() ends.
	return c.NoContent(http.StatusNoContent)
}

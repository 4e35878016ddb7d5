// One line on an echo route. It needs a Redis on localhost:6379.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		log.Fatal(err)
	}
	e := echo.New()
	e.POST("/skus/:sku/deduct", deduct, lockmw.Key(g, "stock:{sku}"))
	e.Server.ReadTimeout = 10 * time.Second
	log.Fatal(e.Start(":8080"))
}

func deduct(c echo.Context) error {
	// Alone with this sku, until c.Request().Context() ends.
	return c.NoContent(http.StatusNoContent)
}

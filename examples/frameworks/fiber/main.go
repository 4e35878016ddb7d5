// One line on a route of Fiber. It needs a Redis on localhost:6379.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"
	recoverer "github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/fiber"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(app(g, deduct).Listen(":8080"))
}

func app(g *guard.Guard, deduct fiber.Handler) *fiber.App {
	a := fiber.New(fiber.Config{ReadTimeout: 10 * time.Second})
	a.Use(recoverer.New())
	a.Post("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), deduct)
	a.Post("/skus/:sku/price", lockmw.Key(g, "stock:{sku}"), deduct) // another route, the same key
	return a
}

func deduct(c fiber.Ctx) error {
	// Alone with this sku, until c.Context() ends.
	return c.SendStatus(http.StatusNoContent)
}

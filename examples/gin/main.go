// One line on a gin route. It needs a Redis on localhost:6379.
package main

import (
	"log"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		log.Fatal(err)
	}
	r := gin.Default()
	r.POST("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), deduct)
	log.Fatal(r.Run(":8080"))
}

func deduct(c *gin.Context) {
	// Alone with this sku, until c.Request.Context() ends.
	c.Status(http.StatusNoContent)
}

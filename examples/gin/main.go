// One line on a gin route. It needs a Redis on localhost:6379.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		log.Fatal(err)
	}
	if err := g.Check(ctx); errors.Is(err, guard.ErrUnavailable) {
		log.Print(err) // Redis may come back: until then, requests get a 503
	} else if err != nil {
		log.Fatal(err) // this Redis loses locks: the error says what to change
	}
	r := gin.Default()
	r.POST("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), deduct)
	srv := &http.Server{Addr: ":8080", Handler: r, ReadTimeout: 10 * time.Second}
	go func() {
		if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := errors.Join(srv.Shutdown(ctx), g.Close(ctx)); err != nil { // in this order: requests end, then leases
		log.Print(err)
	}
}

func deduct(c *gin.Context) {
	// This request has the sku to itself until c.Request.Context() ends: pass that on.
	c.Status(http.StatusNoContent)
}

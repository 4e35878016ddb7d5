// One line on a net/http route. It needs a Redis on localhost:6379.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /skus/{sku}/deduct", lockmw.Key(g, "stock:{sku}")(http.HandlerFunc(deduct)))
	srv := &http.Server{Addr: ":8080", Handler: mux, ReadTimeout: 10 * time.Second}
	log.Fatal(srv.ListenAndServe())
}

func deduct(w http.ResponseWriter, _ *http.Request) {
	// Alone with this sku, until the request's context ends.
	w.WriteHeader(http.StatusNoContent)
}

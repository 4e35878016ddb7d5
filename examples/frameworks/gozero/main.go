// One line on a route of go-zero. It needs a Redis on localhost:6379.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/zeromicro/go-zero/core/conf"
	"github.com/zeromicro/go-zero/rest"
	"github.com/zeromicro/go-zero/rest/pathvar"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	// A rest server answers a bare 503 after 3,000 ms, as long as a guard waits
	// by default. With 2 s the client gets the guard's 409 with Retry-After.
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"), guard.WithMaxWait(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	var c rest.RestConf
	if err := conf.LoadFromYamlBytes([]byte("{Name: stock, Port: 8080}"), &c); err != nil { // or conf.MustLoad
		log.Fatal(err)
	}
	server(c, g, deduct).Start()
}

func server(c rest.RestConf, g *guard.Guard, deduct http.HandlerFunc) *rest.Server {
	lock := lockmw.Key(g, "stock:{sku}")
	s := rest.MustNewServer(c)
	s.AddRoutes([]rest.Route{
		{Method: http.MethodPost, Path: "/skus/:sku/deduct", Handler: vars(lock(deduct))},
		{Method: http.MethodPost, Path: "/skus/:sku/price", Handler: vars(lock(deduct))}, // another route, the same key
	})
	return s
}

// vars puts the path parameters where the lock looks for them.
func vars(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for name, value := range pathvar.Vars(r) {
			keyfunc.SetPath(r, name, value)
		}
		next.ServeHTTP(w, r)
	}
}

func deduct(w http.ResponseWriter, _ *http.Request) {
	// Alone with this sku, until r.Context() ends.
	w.WriteHeader(http.StatusNoContent)
}

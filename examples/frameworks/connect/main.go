// One line in a handler of Connect. It needs a Redis on localhost:6379.
package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		log.Fatal(err)
	}
	s := &http.Server{Addr: ":8080", Handler: handlers(g, deduct), ReadTimeout: 10 * time.Second}
	log.Fatal(s.ListenAndServe())
}

func handlers(g *guard.Guard, s stock) http.Handler {
	sku := func(req *request) string { return guard.Key("stock", req.GetValue()) }
	lock := connect.WithInterceptors(lockmw.Interceptor(
		lockmw.Key(g, procedureDeduct, sku),
		lockmw.Key(g, procedurePrice, sku), // another procedure, the same key
	))
	mux := http.NewServeMux()
	for _, procedure := range []string{procedureDeduct, procedurePrice} { // with generated code one line, and Verify
		mux.Handle(procedure, connect.NewUnaryHandler(procedure, s, lock))
	}
	return mux
}

// What protoc generates of a stock.proto.
const (
	procedureDeduct = "/shop.Stock/Deduct"
	procedurePrice  = "/shop.Stock/Price"
)

type (
	request = wrapperspb.StringValue
	stock   = func(context.Context, *connect.Request[request]) (*connect.Response[request], error)
)

func deduct(_ context.Context, req *connect.Request[request]) (*connect.Response[request], error) {
	// Alone with this sku, until the context ends.
	return connect.NewResponse(req.Msg), nil
}

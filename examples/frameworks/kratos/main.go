// One line in a server of Kratos. It needs a Redis on localhost:6379.
package main

import (
	"context"
	"log"
	"time"

	"github.com/go-kratos/kratos/v3"
	"github.com/go-kratos/kratos/v3/middleware/recovery"
	"github.com/go-kratos/kratos/v3/transport/grpc"
	"github.com/go-kratos/kratos/v3/transport/http"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/kratos"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		log.Fatal(err)
	}
	hs, gs, err := servers(g, deduct, ":8000", ":9000")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(kratos.New(kratos.Name("stock"), kratos.Server(hs, gs)).Run())
}

func servers(g *guard.Guard, s stock, httpAddr, grpcAddr string) (*http.Server, *grpc.Server, error) {
	sku := func(req *request) string { return guard.Key("stock", req.GetValue()) }
	rules := []lockmw.Rule{
		lockmw.Key(g, operationDeduct, sku),
		lockmw.Key(g, operationPrice, sku), // another operation, the same key
	}
	lock := lockmw.Server(rules...)
	hs := http.NewServer(http.Address(httpAddr), http.Middleware(recovery.Recovery(), lock))
	hs.ReadTimeout = 10 * time.Second
	gs := grpc.NewServer(grpc.Address(grpcAddr), grpc.Middleware(recovery.Recovery(), lock))
	registerHTTP(hs, s)
	registerGRPC(gs, s)
	return hs, gs, lockmw.Verify(gs, rules...)
}

func deduct(_ context.Context, req *request) (*request, error) {
	// Alone with this sku, until the context ends.
	return req, nil
}

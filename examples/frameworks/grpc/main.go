// One line for a method of a gRPC service. It needs a Redis on localhost:6379.
//
//	go -C examples/frameworks run ./grpc
package main

import (
	"context"
	"log"
	"net"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		log.Fatal(err)
	}
	s, err := newServer(g, stock{})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "localhost:9090") //nolint:noctx // until the program ends
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(s.Serve(l))
}

func newServer(g *guard.Guard, stock stockServer) (*grpc.Server, error) {
	buy := lockmw.Key(g, buyMethod, func(req *buyRequest) string { return guard.Key("stock", req.GetValue()) })
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(lockmw.Unary(buy)))
	s.RegisterService(&stockService, stock)
	return s, lockmw.Verify(s, buy) // an error if the server has no such method
}

type stock struct{}

func (stock) Buy(context.Context, *buyRequest) (*emptypb.Empty, error) {
	// Alone with this sku, until ctx ends.
	return &emptypb.Empty{}, nil
}

package main

import (
	"context"
	"strings"

	"github.com/go-kratos/kratos/v3/transport/grpc"
	"github.com/go-kratos/kratos/v3/transport/http"
	ggrpc "google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// This file stands for what protoc generates of a stock.proto.

const (
	operationDeduct = "/shop.Stock/Deduct"
	operationPrice  = "/shop.Stock/Price"
)

var operations = []string{operationDeduct, operationPrice}

type request = wrapperspb.StringValue

// stock is the service: one function for all its operations.
type stock func(ctx context.Context, req *request) (*request, error)

func registerHTTP(s *http.Server, srv stock) {
	r := s.Route("/")
	for _, operation := range operations {
		r.POST("/skus/{value}/"+strings.ToLower(short(operation)), func(ctx http.Context) error {
			in := new(request)
			if err := ctx.BindVars(in); err != nil {
				return err
			}
			http.SetOperation(ctx, operation)
			h := ctx.Middleware(func(ctx context.Context, req any) (any, error) { return srv(ctx, req.(*request)) })
			out, err := h(ctx, in)
			if err != nil {
				return err
			}
			return ctx.Result(200, out)
		})
	}
}

func registerGRPC(s *grpc.Server, srv stock) {
	d := &ggrpc.ServiceDesc{ServiceName: "shop.Stock"}
	for _, operation := range operations {
		d.Methods = append(d.Methods, ggrpc.MethodDesc{
			MethodName: short(operation),
			Handler: func(
				_ any, ctx context.Context, dec func(any) error, in ggrpc.UnaryServerInterceptor,
			) (any, error) {
				m := new(request)
				if err := dec(m); err != nil {
					return nil, err
				}
				return in(ctx, m, &ggrpc.UnaryServerInfo{FullMethod: operation},
					func(ctx context.Context, req any) (any, error) { return srv(ctx, req.(*request)) })
			},
		})
	}
	s.RegisterService(d, nil)
}

func short(operation string) string { return strings.TrimPrefix(operation, "/shop.Stock/") }

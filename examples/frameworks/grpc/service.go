package main

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// This file stands for what protoc generates from a service
//
//	service Stock { rpc Buy(google.protobuf.StringValue) returns (google.protobuf.Empty); }

const buyMethod = "/shop.Stock/Buy" // pb.Stock_Buy_FullMethodName

type buyRequest = wrapperspb.StringValue // the sku

type stockServer interface {
	Buy(ctx context.Context, req *buyRequest) (*emptypb.Empty, error)
}

var stockService = grpc.ServiceDesc{
	ServiceName: "shop.Stock",
	HandlerType: (*stockServer)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Buy", Handler: buyHandler}},
}

func buyHandler(srv any, ctx context.Context, decode func(any) error, //nolint:revive // gRPC's order
	intercept grpc.UnaryServerInterceptor,
) (any, error) {
	req := new(buyRequest)
	if err := decode(req); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: buyMethod}
	return intercept(ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return srv.(stockServer).Buy(ctx, req.(*buyRequest))
	})
}

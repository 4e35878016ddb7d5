package lockmw_test

import (
	"context"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
)

func ExampleKey() {
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(0)) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	// pb.Stock_Buy_FullMethodName and *pb.BuyRequest, with generated code.
	const method = "/shop.Stock/Buy"
	sku := func(req *wrapperspb.StringValue) string { return guard.Key("stock", req.GetValue()) }
	interceptor := lockmw.Unary(lockmw.Key(g, method, sku))
	_ = grpc.NewServer(grpc.ChainUnaryInterceptor(interceptor))

	buy := func(ctx context.Context, sku string) { // as the server does
		info := &grpc.UnaryServerInfo{FullMethod: method}
		_, err := interceptor(ctx, wrapperspb.String(sku), info, func(context.Context, any) (any, error) {
			fmt.Println("bought", sku)
			return nil, nil
		})
		if err == nil {
			return
		}
		fmt.Println(status.Code(err))
		for _, d := range status.Convert(err).Details() {
			switch d := d.(type) {
			case *errdetails.ErrorInfo:
				fmt.Println(d.GetDomain(), d.GetReason())
			case *errdetails.RetryInfo:
				fmt.Println("to be tried again")
			}
		}
	}
	buy(context.Background(), "42")
	_ = g.Do(context.Background(), guard.Key("stock", "42"), func(context.Context) error { // the same key, in a service
		buy(context.Background(), "42")
		return nil
	})
	// Output:
	// bought 42
	// Aborted
	// guard LOCK_HELD
	// to be tried again
}

package lockmw_test

import (
	"context"
	"fmt"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/connectv2"
)

func ExampleKey() {
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(0)) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	// pbconnect.StockBuyProcedure and *pb.BuyRequest, with generated code.
	sku := func(req *wrapperspb.StringValue) string { return guard.Key("stock", req.GetValue()) }
	rule := lockmw.Key(g, buy, sku)
	server := connect.NewServer(lockmw.Interceptor(rule))
	server.Register(connect.Method{Spec: spec(buy), Handler: sell}) // pbconnect.RegisterStockHandler(server, stock)
	if err := lockmw.Verify(server, rule); err != nil {
		panic(err)
	}

	client := connect.NewClient(connectinprocess.New(server))
	order := func() {
		err := client.CallUnary(context.Background(), spec(buy), wrapperspb.String("42"), new(wrapperspb.StringValue))
		if err != nil {
			fmt.Println(connect.CodeOf(err))
		}
	}
	order()
	_ = g.Do(context.Background(), guard.Key("stock", "42"), func(context.Context) error { // the same key, in a service
		order()
		return nil
	})
	// Output:
	// sold 42
	// aborted
}

func sell(_ context.Context, _ connect.Spec, stream connect.ServerStream) error {
	req := new(wrapperspb.StringValue)
	if err := stream.Receive(req); err != nil {
		return err
	}
	fmt.Println("sold", req.GetValue())
	return stream.Send(req)
}

package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

func ExampleKey() {
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(0)) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	// pbconnect.StockBuyProcedure and *pb.BuyRequest, with generated code.
	const procedure = "/shop.Stock/Buy"
	sku := func(req *wrapperspb.StringValue) string { return guard.Key("stock", req.GetValue()) }
	rule := lockmw.Key(g, procedure, sku)
	lock := connect.WithInterceptors(lockmw.Interceptor(rule))
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, sell, lock)) // pbconnect.NewStockHandler(stock, lock)
	if err := lockmw.Verify(rule); err != nil {
		panic(err)
	}
	s := httptest.NewServer(mux)
	defer s.Close()

	c := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](s.Client(), s.URL+procedure)
	buy := func(sku string) {
		_, err := c.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String(sku)))
		if e := (*connect.Error)(nil); errors.As(err, &e) {
			fmt.Println(e.Code())
			for _, d := range e.Details() {
				if info, err := d.Value(); err == nil {
					if info, is := info.(*errdetails.ErrorInfo); is {
						fmt.Println(info.GetDomain(), info.GetReason())
					}
				}
			}
		}
	}
	buy("42")
	_ = g.Do(context.Background(), guard.Key("stock", "42"), func(context.Context) error { // the same key, in a service
		buy("42")
		return nil
	})
	// Output:
	// sold 42
	// aborted
	// guard LOCK_HELD
}

func sell(
	_ context.Context, req *connect.Request[wrapperspb.StringValue],
) (*connect.Response[wrapperspb.StringValue], error) {
	fmt.Println("sold", req.Msg.GetValue())
	return connect.NewResponse(req.Msg), nil
}

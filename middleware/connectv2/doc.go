// Package lockmw guards procedures of servers of Connect v2, for clients of
// Connect, gRPC and gRPC-Web. One call at a time works on a key, across every
// instance of the service.
//
//	sku := func(req *pb.BuyRequest) string { return guard.Key("stock", req.GetSku()) }
//	rules := []lockmw.Rule{lockmw.Key(g, pbconnect.StockBuyProcedure, sku)}
//	server := connect.NewServer(lockmw.Interceptor(rules...))
//	pbconnect.RegisterStockHandler(server, stock)
//	err := lockmw.Verify(server, rules...) // do not serve on an error
//	connecthttp.Mount(mux, server)
//
// Calls of a procedure without a rule pass unlocked. So do calls whose rule has
// a wrong name, so call [Verify] before the server starts.
//
// Keys are the same as those of the other adapters and of the service behind
// it. If the handler calls a service that locks guard.Key("stock", sku) itself
// under the handler's context, it runs inside the same lease. That context ends
// when the lease is lost.
//
// What clients see is what the package for Connect v1 answers,
// [github.com/go-lockguard/guard/middleware/connect]: the same codes, reasons
// and details. Retry-After is a header of the response here.
//
// # Order
//
// Put the lock last in connect.NewServer, right before the handlers. The order
// from outside in is telemetry, logging, authentication, limits, lock.
//
// # Streams
//
// A stream is locked by the key of its first message. The interceptor receives
// that message before the handler begins, and hands it to the handler. So a
// handler that sends before it receives must not have a rule, unless its client
// sends first.
//
// The lock lasts until the handler returns, but for at most MaxHold. Messages
// of a stream that were sent before a loss stay sent. The only response of
// another call is sent after the release, so a call whose lease is lost never
// has one.
package lockmw

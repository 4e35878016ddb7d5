// Package lockmw guards operations of Kratos v2 servers, HTTP and gRPC: one
// call at a time works on a key, across every instance of the service.
//
//	sku := func(req *pb.BuyRequest) string { return guard.Key("stock", req.GetSku()) }
//	lock := lockmw.Server(lockmw.Key(g, pb.OperationStockBuy, sku))
//	hs := http.NewServer(http.Middleware(recovery.Recovery(), lock))
//	gs := grpc.NewServer(grpc.Middleware(recovery.Recovery(), lock))
//
// An operation without a rule passes unlocked, and so does one whose rule has
// another name: call [Verify] with the gRPC server before it starts. Keys are
// those of the other adapters and of the service behind: a call in here that
// locks guard.Key("stock", sku) itself, under the handler's context, runs
// inside the same lease. That context ends when the lease is lost.
//
// # What clients see
//
// A call that does not get its key ends with a Kratos error, and its handler
// does not run. The table is that of the HTTP answers, see package outcome. The
// messages name neither key nor holder.
//
//	code  reason                       when
//	409   LOCK_HELD              retry the key was held until the wait ended
//	429   LOCK_QUEUE_FULL        retry too many were waiting already, or the wait would have been too long
//	503   LOCK_UNAVAILABLE       retry the locker gave no answer, or the guard is closed
//	504   LOCK_WAIT_ABORTED            a deadline outside the guard ended the wait
//	500   LOCK_LOST                    the lease was lost while the handler ran: what it did is uncertain
//	400   LOCK_KEY_INVALID             the message has no key, or one that is too long
//	500   LOCK_MISCONFIGURED           our own mistake: a message of another type, no default guard
//	499                                the client has gone
//
// The metadata of the error has the domain "guard". Those marked retry have
// retry_after there, in seconds, and in the header Retry-After of the reply;
// their call has not run.
//
// A handler's own error stays what it is, but for one of guard's, as of a key
// that it wanted itself. That gets the reason from this table, and 500 in place
// of 409, 429 and 503, because clients repeat some of those by themselves and
// half of the work may be done. See [Error].
//
// # Time
//
// A Kratos server gives each call 1 s, unless http.Timeout and grpc.Timeout say
// otherwise. A wait that lasts as long would end without an answer of ours. So
// a call waits for 500 ms at most, whatever the guard's MaxWait: see
// [WithMaxWait].
//
// # Streams
//
// Server is not for grpc.StreamMiddleware, which sees each message by itself.
// Give the interceptor of middleware/grpc to grpc.StreamInterceptor.
package lockmw

// Package lockmw guards operations of Kratos v3 servers for HTTP and gRPC. One
// call at a time works on a key, across every instance of the service.
//
//	sku := func(req *pb.BuyRequest) string { return guard.Key("stock", req.GetSku()) }
//	lock := lockmw.Server(lockmw.Key(g, pb.OperationStockBuy, sku))
//	hs := http.NewServer(http.Middleware(recovery.Recovery(), lock))
//	gs := grpc.NewServer(grpc.Middleware(recovery.Recovery(), lock))
//
// Calls of an operation without a rule pass unlocked. So do calls whose rule
// has a wrong name, so call [Verify] with the gRPC server before it starts.
//
// Keys are the same as those of the other adapters and of the service behind
// it. If the handler calls a service that locks guard.Key("stock", sku) itself
// under the handler's context, it runs inside the same lease. That context ends
// when the lease is lost.
//
// # What clients see
//
// A call that does not get its key ends with a Kratos error, and its handler
// does not run. The table is that of the HTTP answers in package outcome. The
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
//	400   IDEMPOTENCY_KEY_INVALID      the Idempotency-Key is missing, repeated or malformed
//	400   IDEMPOTENCY_KEY_REUSED       it was used for another message
//	412   IDEMPOTENCY_ANSWER_GONE      the call was carried out before, and its answer cannot be had
//	412   IDEMPOTENCY_INTERRUPTED      the call was begun before, and nobody knows what it did
//	499                                the client has gone
//
// The metadata of the error has the domain "guard". An error marked retry also
// has retry_after there, in seconds, and a Retry-After header in the reply. Its
// call has not run.
//
// A handler's own error is returned unchanged, unless it is one of guard's, for
// example of a key that the handler wanted itself. Such an error gets the
// reason from this table, and 500 in place of 409, 429 and 503. Clients repeat
// some of those by themselves, and half of the work may be done. See [Error].
//
// # Time
//
// A Kratos server gives each call 1 s, unless http.Timeout and grpc.Timeout say
// otherwise. A wait of that length would end without an answer from this
// package. So a call waits for at most 500 ms, whatever the guard's MaxWait.
// [WithMaxWait] sets another limit.
//
// # Streams
//
// Do not use Server in grpc.StreamMiddleware, which sees each message by
// itself. Give the interceptor of middleware/grpc to grpc.StreamInterceptor. In
// a stream of the HTTP server call g.Do.
package lockmw

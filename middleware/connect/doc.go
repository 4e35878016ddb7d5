// Package lockmw guards procedures of Connect servers, for clients of Connect,
// gRPC and gRPC-Web. One call at a time works on a key, across every instance
// of the service.
//
//	sku := func(req *pb.BuyRequest) string { return guard.Key("stock", req.GetSku()) }
//	watched := func(req *pb.WatchRequest) string { return guard.Key("stock", req.GetSku()) }
//	rules := []lockmw.Rule{
//		lockmw.Key(g, pbconnect.StockBuyProcedure, sku),
//		lockmw.Key(g, pbconnect.StockWatchProcedure, watched), // a stream
//	}
//	lock := connect.WithInterceptors(lockmw.Interceptor(rules...))
//	mux.Handle(pbconnect.NewStockHandler(stock, lock))
//	err := lockmw.Verify(rules...) // do not serve on an error
//
// Calls of a procedure without a rule pass unlocked. So do calls whose rule has
// a wrong name, so call [Verify] before the server starts.
//
// Keys are the same as those of the other adapters and of the service behind
// it. If the handler calls a service that locks guard.Key("stock", sku) itself
// under the handler's context, it runs inside the same lease. That context ends
// when the lease is lost.
//
// # What clients see
//
// A call that does not get its key ends with a Connect error, and its handler
// does not run. The reason is in a google.rpc.ErrorInfo of domain "guard", from
// the same table as the HTTP answers in package outcome. Messages name neither
// key nor holder.
//
//	code                 reason                       when
//	aborted              LOCK_HELD              retry the key was held until MaxWait ended
//	resource_exhausted   LOCK_QUEUE_FULL        retry too many waited already, or the wait would be too long
//	unavailable          LOCK_UNAVAILABLE       retry the locker gave no answer, or the guard is closed
//	deadline_exceeded    LOCK_WAIT_ABORTED            a deadline of the server ended the wait
//	internal             LOCK_LOST                    the lease was lost while the handler ran
//	invalid_argument     LOCK_KEY_INVALID             no key, a key that is too long, or a stream without a message
//	internal             LOCK_MISCONFIGURED           our own mistake: a message of another type, no default guard
//	invalid_argument     IDEMPOTENCY_KEY_INVALID      the Idempotency-Key is missing, repeated or malformed
//	invalid_argument     IDEMPOTENCY_KEY_REUSED       it was used for another message
//	failed_precondition  IDEMPOTENCY_ANSWER_GONE      the call was carried out before, and its answer cannot be had
//	failed_precondition  IDEMPOTENCY_INTERRUPTED      the call was begun before, and nobody knows what it did
//	canceled                                          the client has gone
//
// A client does not see the code of its own deadline. After LOCK_LOST it is
// uncertain what the handler did.
//
// An error marked retry carries a google.rpc.RetryInfo, and Retry-After in
// seconds in its metadata. Its call has not run. Clients that repeat calls by
// themselves usually do so for unavailable. Never let them repeat internal.
//
// A handler's own error is returned unchanged, and so is a *connect.Error that
// a handler makes of any error. Another error of guard, for example of a key
// that the handler wanted itself, gets code and reason from this table. The
// handler has run and may have done half of its work. So LOCK_HELD,
// LOCK_QUEUE_FULL and LOCK_UNAVAILABLE are internal then, without RetryInfo. See
// [Error]. A lost lease is LOCK_LOST in any case.
//
// # Order
//
// Put the lock last in connect.WithInterceptors, right before the handler. The
// order from outside in is telemetry, logging, authentication, limits, lock.
//
// # Streams
//
// A stream is locked by the key of its first message. The interceptor receives
// that message before the handler begins, and hands it to the handler. So a
// handler that sends before it receives must not have a rule, unless its client
// sends first. Over HTTP/1.1 a client that streams and has gone is noticed
// only when the wait ends.
//
// The lock lasts until the handler returns, but for at most MaxHold. A long
// stream needs a limit of its own by g.With(guard.WithMaxHold(d)), or better a
// lock around each message by g.Do. Messages sent before a loss stay sent.
package lockmw

// Package lockmw guards methods of gRPC servers. One call at a time works on a
// key, across every instance of the service.
//
//	sku := func(req *pb.BuyRequest) string { return guard.Key("stock", req.GetSku()) }
//	watched := func(req *pb.WatchRequest) string { return guard.Key("stock", req.GetSku()) }
//	rules := []lockmw.Rule{
//		lockmw.Key(g, pb.Stock_Buy_FullMethodName, sku),
//		lockmw.Key(g, pb.Stock_Watch_FullMethodName, watched), // a stream
//	}
//	s := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(lockmw.Unary(rules...)),
//		grpc.ChainStreamInterceptor(lockmw.Stream(rules...)),
//	)
//	pb.RegisterStockServer(s, stock)
//	err := lockmw.Verify(s, rules...) // do not serve on an error
//
// A server that runs is in examples/frameworks/grpc.
//
// Calls of a method without a rule pass unlocked. So do calls whose rule has a
// wrong name or is in the wrong interceptor, so call [Verify] before Serve.
//
// Keys are the same as those of the HTTP middleware and of the service behind
// it. If the handler calls a service that locks guard.Key("stock", sku) itself
// under the handler's context, it runs inside the same lease.
//
// # What clients see
//
// A call that does not get its key ends with a status, and its handler does not
// run. The reason is in a google.rpc.ErrorInfo of domain "guard", from the same
// table as the HTTP answers in package outcome. Messages name neither key nor
// holder.
//
//	status               reason                       when
//	ABORTED              LOCK_HELD              retry the key was held until MaxWait ended
//	RESOURCE_EXHAUSTED   LOCK_QUEUE_FULL        retry too many waited already, or the wait would be too long
//	UNAVAILABLE          LOCK_UNAVAILABLE       retry the locker gave no answer, or the guard is closed
//	DEADLINE_EXCEEDED    LOCK_WAIT_ABORTED            a deadline of the server ended the wait
//	INTERNAL             LOCK_LOST                    the lease was lost while the handler ran
//	INVALID_ARGUMENT     LOCK_KEY_INVALID             the message has no key, or one that is too long
//	INTERNAL             LOCK_MISCONFIGURED           our own mistake: a message of another type, no default guard
//	INVALID_ARGUMENT     IDEMPOTENCY_KEY_INVALID      the idempotency-key is missing, repeated or malformed
//	INVALID_ARGUMENT     IDEMPOTENCY_KEY_REUSED       it was used for another message
//	FAILED_PRECONDITION  IDEMPOTENCY_ANSWER_GONE      the call was carried out before, and its answer cannot be had
//	FAILED_PRECONDITION  IDEMPOTENCY_INTERRUPTED      the call was begun before, and nobody knows what it did
//	CANCELLED                                         the client has gone
//
// A client does not see the status of its own deadline. After LOCK_LOST it is
// uncertain what the handler did.
//
// A status marked retry carries a google.rpc.RetryInfo, and its call has not
// run. Clients that repeat calls by themselves usually do so for UNAVAILABLE.
// Never let them repeat INTERNAL.
//
// A handler's own error is returned unchanged, unless it is one of guard's, for
// example of a key that the handler wanted itself. Such an error becomes a
// status with the reason from this table. The handler has run and may have done
// half of its work. So LOCK_HELD, LOCK_QUEUE_FULL and LOCK_UNAVAILABLE are
// INTERNAL then, without RetryInfo.
//
// In a method without a rule [Error] keeps the status of this table, without
// RetryInfo. A client that repeats UNAVAILABLE then runs the handler again. A
// handler that must not run twice takes all its keys before it does anything,
// by a rule or guard.DoAll. After that it returns its own status that the
// clients' policy does not repeat, like FAILED_PRECONDITION.
//
// # Order
//
// Put the lock last, right before the handler. The order from outside in is
// recovery, telemetry, logging, authentication, limits, lock.
//
// # Streams
//
// A stream is locked by the key of its first message. The lock lasts from the
// receipt of that message until the handler returns, but for at most MaxHold. A
// stream whose handler receives nothing is not locked. A long stream needs a
// limit of its own by g.With(guard.WithMaxHold(d)), or better a lock around
// each message by g.Do.
//
// If the client sends a stream, the handler must ask for the Context after the
// first Recv. That context ends when the lease is lost. Messages sent by then
// stay sent.
package lockmw

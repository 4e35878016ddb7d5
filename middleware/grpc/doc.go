// Package lockmw guards methods of gRPC servers: one call at a time works on a
// key, across every instance of the service.
//
//	sku := func(req *pb.BuyRequest) string { return guard.Key("stock", req.GetSku()) }
//	s := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(lockmw.Unary(lockmw.Key(g, pb.Stock_Buy_FullMethodName, sku))),
//		grpc.ChainStreamInterceptor(lockmw.Stream(lockmw.Key(g, pb.Stock_Watch_FullMethodName, watched))),
//	)
//
// A method without a rule passes unlocked, and so does one whose rule has
// another name or is in the wrong interceptor: call [Verify] before Serve. Keys
// are those of the HTTP middleware and of the service behind: a call in here
// that locks guard.Key("stock", sku) itself, under the handler's context, runs
// inside the same lease.
//
// # What clients see
//
// A call that does not get its key ends with a status, and its handler does not
// run. The reason is in a google.rpc.ErrorInfo of domain "guard", from the same
// table as the HTTP answers, see package outcome; messages name neither key nor
// holder.
//
//	status               reason                       when
//	ABORTED              LOCK_HELD              retry the key was held until MaxWait ended
//	RESOURCE_EXHAUSTED   LOCK_QUEUE_FULL        retry too many were waiting already, or the wait would have been too long
//	UNAVAILABLE          LOCK_UNAVAILABLE       retry the locker gave no answer, or the guard is closed
//	DEADLINE_EXCEEDED    LOCK_WAIT_ABORTED            a deadline outside the guard ended the wait
//	INTERNAL             LOCK_LOST                    the lease was lost while the handler ran: what it did is uncertain
//	INVALID_ARGUMENT     LOCK_KEY_INVALID             the message has no key, or one that is too long
//	INTERNAL             LOCK_MISCONFIGURED           our own mistake: a message of another type, no default guard
//	CANCELLED                                         the client has gone
//
// Those marked retry carry a google.rpc.RetryInfo, and the call has not run. A
// client that repeats calls by itself does so for UNAVAILABLE, as a rule. Never
// let it repeat INTERNAL.
//
// A handler's own error stays what it is, but for one of guard's, as of a key
// that it wanted itself. That becomes a status with the reason from this table.
// The handler has run and may have done half of its work, so LOCK_HELD,
// LOCK_QUEUE_FULL and LOCK_UNAVAILABLE are INTERNAL then, without RetryInfo.
//
// In a method without a rule [Error] keeps the status of this table, without
// RetryInfo. A client that repeats UNAVAILABLE then runs the handler again. A
// handler that must not run twice takes all its keys before it does anything,
// by a rule or guard.DoAll. After that it returns a status of its own that the
// clients' policy does not repeat, like FAILED_PRECONDITION.
//
// # Order
//
// From outside in: recovery, telemetry, logging, authentication, limits, and
// the lock last, right before the handler.
//
// # Streams
//
// A stream is locked when its first message has been received, by that
// message's key, until its handler returns (one that receives nothing is not):
// for MaxHold at most, so a long stream wants a limit of its own, by
// g.With(guard.WithMaxHold(d)), or better a lock around each message, by g.Do.
// Of a stream of many messages to the server the handler asks for the Context
// after the first Recv: then it ends when the lease is lost. What has been sent
// by then stays sent.
package lockmw

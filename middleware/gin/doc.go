// Package lockmw guards gin routes. One request at a time works on a key,
// across every instance of the service.
//
//	r.POST("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), buy)
//
// If a request does not get its key, its handler does not run. It gets an
// answer from the table in package outcome, for example 409 with Retry-After.
//
// In the handler, c.Request.Context() ends when the lease is lost. Pass it on
// to the code that does the work. If a service called from there locks
// guard.Key("stock", sku) itself, it runs inside the same lease.
//
// # c is not the request's context
//
// If c is passed as a context it carries the lease, so guard's verbs called
// with c run inside it. But gin's c never ends, unless
// engine.ContextWithFallback is set. Work on c goes on when the lease is lost
// and another holder runs, and when the client has gone. Pass
// c.Request.Context(), as in the example of [Key].
//
// For work that outlives the handler use c.Copy(), as always with gin. gin
// reuses c, so code that keeps c would run inside the lease of the next
// request, and nothing can detect that. A copy keeps its own lease, which has
// ended.
//
// # Order
//
// Put the lock last, right before the handler. From outside in the order is
// recovery, telemetry, logging, authentication, rate and body limits, timeout,
// lock:
//
//	r.Use(gin.Recovery(), otelgin.Middleware("shop"), auth, limit, timeout)
//	r.POST("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), buy)
//
// The reasons for this order, and two rules:
//
//   - Middleware that refuses requests belongs outside, so that a refused
//     request does not queue first.
//   - Recovery belongs outside, because a panic passes through the lock after
//     its release.
//   - A timeout belongs outside, where it ends the wait and the handler. It is
//     http.TimeoutHandler around the engine, or a middleware that gives
//     c.Request a context with a deadline. One that calls c.Next in a goroutine
//     goes on with a context that gin gives to the next request meanwhile. The
//     lock answers 500 with lock_misconfigured there. Never put anything inside
//     the lock that answers while the handler still runs. The lock would be
//     released under the handler.
//   - A handler must not start work on the key that outlives it.
//
// Name the lock on the route, or on a group whose path has the parameters, and
// not in engine.Use. In engine.Use a template with a path parameter answers
// routes without that parameter, like /healthz, with 500 and
// lock_misconfigured. Requests that match no route get gin's own 404 or 405,
// without the NoRoute handlers.
//
// A template without path parameters works in engine.Use for all requests. A
// request without the header that the template names gets 400, even if there is
// no such route. [WithSkipper] is for requests that must not wait.
//
// The key has the path parameter that c.Param returns. gin answers 404 to an
// escaped slash in it, unless engine.UseRawPath is set. If you set that, leave
// engine.UnescapePathValues true.
//
// An answer 400, 413 or 415 names the parameter, header or field that is wrong
// and the reason. It never has the value.
//
// # Time
//
// The wait counts against http.Server.WriteTimeout, so allow for MaxWait and
// the handler.
//
// A body of at most 64 KiB is read before the wait. On HTTP/1 net/http notices
// only then that the client has gone, and the waiter leaves the queue at once.
// http.Server.ReadTimeout bounds the reading. With a larger body the waiter
// stays until its MaxWait is over. [httpopt.WithBodyLimit] sets another size,
// which is also the largest body in which a key's value is found.
//
// A handler that answers while its client still sends needs HTTP/2, where
// nothing is read ahead.
package lockmw

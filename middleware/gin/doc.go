// Package lockmw guards gin routes: one request at a time works on a key,
// across every instance of the service.
//
//	r.POST("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), buy)
//
// A request that does not get its key is answered from the table in package
// outcome, 409 with Retry-After for one, and its handler does not run. In the
// handler, c.Request.Context() ends when the lease is lost: pass it on to
// whatever does the work. A service called from there that locks
// guard.Key("stock", sku) itself runs inside the same lease.
//
// # c is not the request's context
//
// c, passed as a context, carries the lease, so that verbs which get it run
// inside. But gin's c never ends, unless engine.ContextWithFallback is set:
// work on c goes on when the lease is lost and another holder runs, and when
// the client has gone. Pass c.Request.Context(), as in the example of [Key].
//
// For work that outlives the handler take c.Copy(), as always with gin: c
// itself is used again, and whoever keeps it finds the lease of the next
// request and runs inside that, which nothing can tell apart. A copy keeps its
// own, which has ended.
//
// # Order
//
// From outside in: recovery, telemetry, logging, authentication, rate limit,
// body limit, timeout, and the lock last, right before the handler.
//
//		r.Use(gin.Recovery(), otelgin.Middleware("shop"), auth, limit, timeout)
//		r.POST("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), buy)
//
//	  - What refuses a request belongs outside, so that it need not queue first.
//	  - Recovery belongs outside: a panic passes through the lock after its release.
//	  - A timeout belongs outside, where it ends the wait and the handler. Never put http.TimeoutHandler, or anything else
//	    that answers while the handler still runs, inside the lock: it would be released under the handler.
//	  - A handler must not start work on the key that outlives it.
//
// Name the lock on the route or on a group whose path has the parameters, not
// in engine.Use: there a template with a path parameter answers the routes that
// do not have it, like /healthz, with 500 and lock_misconfigured. Requests that
// match no route get gin's own 404 or 405, without the NoRoute handlers. A
// template without path parameters works in engine.Use, for all requests: those
// without the header that it names get 400 even if there is no such route.
// [WithSkipper] is for what must not wait.
//
// The key has the path parameter that c.Param has. gin answers 404 to an
// escaped slash in it, unless engine.UseRawPath is set; with that, leave
// engine.UnescapePathValues as it is.
//
// A request that gets 400, 413 or 415 is told which parameter, header or field
// is wrong and why, never the value.
//
// # Time
//
// The wait counts against http.Server.WriteTimeout: allow for MaxWait and the
// handler. A body of at most 64 KiB is read before the wait, because on HTTP/1
// net/http notices only then that the client has gone, and the waiter leaves
// the queue at once; http.Server.ReadTimeout bounds the reading. With a larger
// body it stays until its MaxWait is over: [WithBodyLimit] sets another size,
// which is also the largest body that a key's value is found in. A handler that
// talks with its client while that still sends needs HTTP/2, where nothing is
// read ahead.
package lockmw

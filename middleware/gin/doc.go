// Package lockmw guards gin routes: one request at a time works on a key, across every instance of the service.
//
//	r.POST("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), buy)
//
// A request that does not get its key is answered from the table in package outcome, 409 with Retry-After for one, and
// its handler does not run. In the handler, c.Request.Context() ends when the lease is lost: pass it on to whatever does
// the work. A service called from there that locks guard.Key("stock", sku) itself runs inside the same lease, even if it
// was given c instead of the request's context.
//
// # Order
//
// From outside in: recovery, telemetry, logging, authentication, rate limit, body limit, timeout, and the lock last,
// right before the handler.
//
//   - What refuses a request belongs outside, so that it need not queue first.
//   - Recovery belongs outside: a panic passes through the lock after its release.
//   - A timeout belongs outside, where it ends the wait and the handler. Never wrap the handler inside the lock in
//     http.TimeoutHandler, or anything else that answers while the handler still runs: the lock would be released under
//     it.
//   - A handler must not start work on the key that outlives it.
//
// Name the lock on the route, not in engine.Use: a route has the parameters that its template names, and requests that
// only read need no lock.
//
// # Time
//
// The wait counts against http.Server.WriteTimeout: allow for MaxWait and the handler. A client on HTTP/1.1 that goes
// while its request waits is noticed only once its body has been read to the end; MaxWait bounds the wait in any case.
package lockmw

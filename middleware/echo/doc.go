// Package lockmw guards echo routes. One request at a time works on a key,
// across every instance of the service.
//
//	e.POST("/stock/:sku/buy", buy, lockmw.Key(g, "stock:{sku}"))
//
// If a request does not get its key, its handler does not run. It gets an
// answer from the table in package outcome, for example 409 with Retry-After.
// The answer is an *echo.HTTPError and goes through the application's
// HTTPErrorHandler.
//
// In the handler, c.Request().Context() ends when the lease is lost. Pass it on
// to the code that does the work. If a service called from there locks
// guard.Key("stock", sku) itself, it runs inside the same lease.
//
// # Order
//
// Put the lock last, right before the handler. From outside in the order is
// recovery, telemetry, logging, authentication, rate and body limits, timeout,
// lock:
//
//	e.Use(middleware.Recover(), otelecho.Middleware("shop"), auth, middleware.BodyLimit("1M"), middleware.ContextTimeout(5*time.Second))
//	e.POST("/stock/:sku/buy", buy, lockmw.Key(g, "stock:{sku}"))
//
// The reasons for this order, and two rules:
//
//   - Middleware that refuses requests belongs outside, so that a refused
//     request does not queue first.
//   - Recovery belongs outside, because a panic passes through the lock after
//     its release.
//   - A timeout belongs outside, where it ends the wait and the handler. If
//     middleware.ContextTimeout ends the wait, it gets its own error back and
//     answers 503. Without it, make the HTTPErrorHandler answer
//     context.DeadlineExceeded.
//   - Never put middleware.Timeout or http.TimeoutHandler inside the lock, nor
//     anything else that answers while the handler still runs. The lock would
//     be released under the handler.
//   - Do not use middleware.Timeout outside the lock either. It goes on with a
//     context that echo gives to the next request while the handler still runs.
//     The lock answers 500 with lock_misconfigured there.
//   - A handler must not start work on the key that outlives it.
//
// Name the lock on the route, or on a group whose path has the parameters, and
// not in e.Use. In e.Use a template with a path parameter answers routes
// without that parameter, like /healthz, with 500 and lock_misconfigured.
// Requests that match no route get echo's own 404 or 405.
//
// A template without path parameters works in e.Use for all requests. A request
// without the header that the template names gets 400, even if there is no such
// route. [WithSkipper] is for requests that must not wait. In e.Pre there are
// no parameters at all.
//
// echo matches a path of unusual spelling as it was sent, so c.Param("sku") of
// /stock/%61b is "%61b". The key has the decoded value "ab", as with other
// routers. /stock/%2561b has the same c.Param("sku") and gets 400, as every
// value does that has escapes after decoding. A wildcard is {*} in a template.
//
// # echo v5
//
// This package is for echo v4, which echo supports until 2026-12-31. For v5,
// import github.com/go-lockguard/guard/middleware/echov5 instead. Routes,
// options and answers are the same.
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

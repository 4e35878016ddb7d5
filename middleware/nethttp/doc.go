// Package lockmw guards routes of net/http and of routers on top of it like
// chi. One request at a time works on a key, across every instance of the
// service.
//
//	mux.Handle("POST /stock/{sku}/buy", lockmw.Key(g, "stock:{sku}")(buy))
//	r.With(lockmw.Key(g, "stock:{sku}")).Post("/stock/{sku}/buy", buy) // chi
//
// If a request does not get its key, its handler does not run. It gets an
// answer from the table in package outcome, for example 409 with Retry-After.
//
// In the handler, r.Context() ends when the lease is lost. Pass it on to the
// code that does the work. If a service called from there locks
// guard.Key("stock", sku) itself, it runs inside the same lease.
//
// # Order
//
// Put the lock last, right before the handler. From outside in the order is
// recovery, telemetry, logging, authentication, rate and body limits, timeout,
// lock:
//
//	recovery(telemetry(auth(limit(http.TimeoutHandler(lockmw.Key(g, "stock:{sku}")(buy), 5*time.Second, "")))))
//
// The reasons for this order, and two rules:
//
//   - Middleware that refuses requests belongs outside, so that a refused
//     request does not queue first.
//   - Recovery belongs outside, because a panic passes through the lock after
//     its release.
//   - A timeout belongs outside, where it ends the wait and the handler. Never
//     put [http.TimeoutHandler] inside the lock, nor anything else that answers
//     while the handler still runs. The lock would be released under the
//     handler.
//   - A handler must not start work on the key that outlives it.
//
// Guard the route, not the mux. In chi use r.With or r.Group, not r.Use. Around
// a router there are no path parameters yet, so a template that names one
// answers every request with 500 and lock_misconfigured.
//
// A template without path parameters works there for all requests. A request
// without the header that the template names gets 400, even if there is no such
// route. [WithSkipper] is for requests that must not wait, like /healthz.
//
// chi matches a path of unusual spelling as it was sent and does not decode its
// parameters. The parameter of /stock/%61b is "%61b" in chi and "ab" in other
// routers. The key has the value that chi.URLParam returns. chi's wildcard is
// {*} in a template.
//
// If a router does not set the PathValue of a request, call keyfunc.SetPath for
// each parameter. For gorilla/mux that is
//
//	for name, value := range mux.Vars(r) {
//		keyfunc.SetPath(r, name, value)
//	}
//	r.Pattern, _ = mux.CurrentRoute(r).GetPathTemplate() // for logs
//
// in a middleware outside the lock. examples/chi has it with the tests that all
// routers pass. In echo v5 this package works through echo.WrapMiddleware,
// which passes the parameters on.
//
// # After the first byte
//
// If the lease is lost before the handler has written anything, the answer is
// 500 and lock_lost. After that nothing can be answered, and the loss is only
// logged.
//
// To know whether the response has begun, the middleware wraps the
// ResponseWriter. http.ResponseController, Flusher, Hijacker and the sending of
// files work as before. http.Pusher is not passed on.
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

// Package lockmw guards routes of net/http, and of routers on top of it like
// chi: one request at a time works on a key, across every instance of the
// service.
//
//	mux.Handle("POST /stock/{sku}/buy", lockmw.Key(g, "stock:{sku}")(buy))
//	r.With(lockmw.Key(g, "stock:{sku}")).Post("/stock/{sku}/buy", buy) // chi
//
// A request that does not get its key is answered from the table in package
// outcome, 409 with Retry-After for one, and its handler does not run. In the
// handler, r.Context() ends when the lease is lost: pass it on to whatever does
// the work. A service called from there that locks guard.Key("stock", sku)
// itself runs inside the same lease.
//
// # Order
//
// From outside in: recovery, telemetry, logging, authentication, rate limit,
// body limit, timeout, and the lock last, right before the handler.
//
//		recovery(telemetry(auth(limit(http.TimeoutHandler(lockmw.Key(g, "stock:{sku}")(buy), 5*time.Second, "")))))
//
//	  - What refuses a request belongs outside, so that it need not queue first.
//	  - Recovery belongs outside: a panic passes through the lock after its release.
//	  - A timeout belongs outside, where it ends the wait and the handler. Never put [http.TimeoutHandler], or anything else
//	    that answers while the handler still runs, inside the lock: it would be released under the handler.
//	  - A handler must not start work on the key that outlives it.
//
// Guard the route, not the mux, and in chi use r.With or r.Group, not r.Use:
// around a router there are no path parameters yet, so a template that names
// one answers every request with 500 and lock_misconfigured. A template without
// path parameters works there, for all requests: those without the header that
// it names get 400 even if there is no such route. [WithSkipper] is for what
// must not wait, /healthz for one.
//
// chi matches a path of unusual spelling as it was sent, and gives parameters
// like that: /stock/%61b is "%61b" there and "ab" everywhere else. The key has
// what chi.URLParam says. chi's wildcard is {*} in a template.
//
// A router that keeps its parameters to itself needs a line for each of them:
// keyfunc.SetPath. For gorilla/mux that is
//
//	for name, value := range mux.Vars(r) {
//		keyfunc.SetPath(r, name, value)
//	}
//	r.Pattern, _ = mux.CurrentRoute(r).GetPathTemplate() // for logs
//
// in a middleware outside the lock; examples/chi has it with the tests that all
// routers pass. In echo v5 this package works through echo.WrapMiddleware,
// which hands the parameters on.
//
// # After the first byte
//
// If the lease is lost before the handler has written anything, the answer is
// 500 and lock_lost. After that nothing can be answered, and it is logged. To
// know which, the middleware wraps the ResponseWriter; http.ResponseController,
// Flusher, Hijacker and sending of files work as before. http.Pusher is not
// passed on.
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

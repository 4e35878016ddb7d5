// Package lockmw guards routes of Fiber v3: one request at a time works on a
// key, across every instance of the service.
//
//	app.Post("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), buy)
//
// A request that does not get its key is answered from the table in package
// outcome, 409 with Retry-After for one, and its handler does not run. In the
// handler, c.Context() ends when the lease is lost: pass it on to whatever does
// the work. A service called from there that locks guard.Key("stock", sku)
// itself runs inside the same lease. It does so with c itself as its context
// too, but c never ends.
//
// # Order
//
// From outside in: recovery, telemetry, logging, authentication, rate limit,
// and the lock last, right before the handler.
//
//		app.Use(recover.New(), auth)
//		app.Post("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), buy)
//
//	  - What refuses a request belongs outside, so that it need not queue first.
//	  - Recovery belongs outside: a panic passes through the lock after its release.
//	  - Fiber's timeout middleware answers while its handler still runs. Never put it
//	    inside the lock, which would be released under the handler.
//	  - A handler must not start work on the key that outlives it. Nor must it write
//	    under the lock what belongs under it with SendStreamWriter: fasthttp calls that
//	    function when all handlers have returned.
//
// Name the lock on the route. In app.Use there are no path parameters yet, and
// a template that has one answers every request there with 500 and
// lock_misconfigured.
//
// Fiber leaves path parameters as they were sent, and c.Params("sku") of
// /stock/%61b is "%61b". The key has the value decoded, "ab", as it is in other
// routers. A wildcard is {*} in a template, the second one {*2}.
//
// # Clients that have gone
//
// fasthttp does not tell a handler that its client has gone. A request whose
// client has left stays in the queue, takes its turn and runs. So a request
// waits for 1 s at most, whatever the guard's MaxWait: see [WithMaxWait].
//
// # The answer
//
// Fiber sends a response when all handlers have returned. So a lease that was
// lost always becomes the answer 500 with lock_lost, whatever the handler has
// written.
//
// # Memory
//
// Fiber uses the memory of a request again. The key is a copy, and so is the
// *http.Request that a keyfunc.Func gets. Where a template has path parameters
// only, nothing is copied but the key.
package lockmw

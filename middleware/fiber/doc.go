// Package lockmw guards routes of Fiber v3. One request at a time works on a
// key, across every instance of the service.
//
//	app.Post("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), buy)
//
// If a request does not get its key, its handler does not run. It gets an
// answer from the table in package outcome, for example 409 with Retry-After.
//
// In the handler, c.Context() ends when the lease is lost. Pass it on to the
// code that does the work. If a service called from there locks
// guard.Key("stock", sku) itself, it runs inside the same lease. That also
// works with c itself as its context, but c never ends.
//
// # Order
//
// Put the lock last, right before the handler. The order from outside in is
// recovery, telemetry, logging, authentication, rate limit, lock:
//
//	app.Use(recover.New(), auth)
//	app.Post("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), buy)
//
// The reasons for this order, and two rules:
//
//   - Middleware that refuses requests belongs outside, so that a refused
//     request does not queue first.
//   - Recovery belongs outside, because a panic passes through the lock after
//     its release.
//   - Fiber's timeout middleware answers while its handler still runs. Never
//     put it inside the lock. The lock would be released under the handler, and
//     logs that once. Inside [Idempotent] its answer is not kept, and later
//     requests get 409, unless [httpopt.InTransaction] rolls the work back.
//   - A handler must not start work on the key that outlives it. Nor must it do
//     work on the key in a SendStreamWriter or Hijack function, or in a
//     WebSocket, because fasthttp calls these functions after all handlers have
//     returned. There, take the key with g.Do for each message.
//
// Name the lock on the route. In app.Use there are no path parameters yet. A
// template that has one answers every request there with 500 and
// lock_misconfigured.
//
// Fiber leaves path parameters as they were sent, so c.Params("sku") of
// /stock/%61b is "%61b". The key has the decoded value "ab", as with other
// routers. A wildcard is {*} in a template, and a second one is {*2}.
//
// # Clients that have gone
//
// fasthttp does not tell a handler that its client has gone. A request whose
// client has left stays in the queue, takes its turn and runs. So a request
// waits for at most 1 s, whatever the guard's MaxWait. [WithMaxWait] sets
// another limit.
//
// # The answer
//
// Fiber sends a response when all handlers have returned. So the answer for a
// lost lease is always 500 with lock_lost, whatever the handler has written.
//
// # Memory
//
// Fiber reuses the memory of a request. So the key is a copy, and so is the
// *http.Request that a keyfunc.Func gets. If a template has path parameters
// only, nothing but the key is copied.
//
// With StreamRequestBody a body is read for keys that are in it, for
// Idempotent, and if it says that it is no longer than [httpopt.WithBodyLimit].
// A longer one that is needed gets 413, and no more than the limit is read of
// it.
//
// # Cookies and forms
//
// fasthttp reads some cookies and types of forms in another way than net/http
// does. A request whose key is in such a cookie or form gets 400 or 415.
package lockmw

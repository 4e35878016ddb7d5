// Package lockmw guards routes of echo v5: one request at a time works on a
// key, across every instance of the service.
//
//	e.POST("/stock/:sku/buy", buy, lockmw.Key(g, "stock:{sku}"))
//
// A request that does not get its key is answered from the table in package
// outcome, 409 with Retry-After for one, and its handler does not run. The
// answer is an error and goes through the application's HTTPErrorHandler. In
// the handler, c.Request().Context() ends when the lease is lost: pass it on to
// whatever does the work. A service called from there that locks
// guard.Key("stock", sku) itself runs inside the same lease.
//
// # Order
//
// From outside in: recovery, telemetry, logging, authentication, rate limit,
// body limit, timeout, and the lock last, right before the handler.
//
//		e.Use(middleware.Recover(), otelecho.Middleware("shop"), auth, middleware.BodyLimit(1<<20), middleware.ContextTimeout(5*time.Second))
//		e.POST("/stock/:sku/buy", buy, lockmw.Key(g, "stock:{sku}"))
//
//	  - What refuses a request belongs outside, so that it need not queue first.
//	  - Recovery belongs outside: a panic passes through the lock after its release.
//	  - A timeout belongs outside, where it ends the wait and the handler: if middleware.ContextTimeout ends the wait, it
//	    gets its own error back and answers 503. Without it, make the HTTPErrorHandler answer context.DeadlineExceeded.
//	  - Never put middleware.Timeout, http.TimeoutHandler, or anything else that answers while the handler still runs,
//	    inside the lock: it would be released under the handler.
//	  - A handler must not start work on the key that outlives it.
//
// Name the lock on the route or on a group whose path has the parameters, not
// in e.Use: there a template with a path parameter answers the routes that do
// not have it, like /healthz, with 500 and lock_misconfigured. Requests that
// match no route get echo's own 404 or 405. A template without path parameters
// works in e.Use, for all requests: those without the header that it names get
// 400 even if there is no such route. [WithSkipper] is for what must not wait.
// In e.Pre there are no parameters at all.
//
// echo matches a path of unusual spelling as it was sent, and unless its router
// is told to unescape them, c.Param("sku") of /stock/%61b is "%61b". The key
// has the value decoded, "ab", as it is in other routers. A wildcard is {*} in
// a template.
//
// # Error handlers
//
// echo.DefaultHTTPErrorHandler writes the body of package outcome. So does one
// of your own that gives the error to c.JSON.
// echo.ProblemDetailsHTTPErrorHandler writes a problem without the code,
// because an echo.ProblemError has no place for it. Others find the status with
// echo.StatusCode(err), and the text in the *echo.HTTPError. [WithErrorHandler]
// writes whatever you like.
//
// # echo v4
//
// The package for echo v4 is middleware/echo. Routes, options and answers are
// the same.
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

package lockmw

import (
	"database/sql"

	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/echoguard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// Option changes which requests the middleware locks and how it answers. To
// change how it locks, pass g.With(...) as the guard.
type Option interface{ option }

// AnswerOption is an Option that changes how errors are answered. Given to
// [Answers] it applies to all routes.
type AnswerOption interface {
	Option
	answerOption
}

type (
	option       = echoguard.Option[echo.Context]
	answerOption = echoguard.AnswerOption[echo.Context]
)

// with makes the options.
var with echoguard.Options[echo.Context]

// WithErrorHandler replaces the answers of this middleware. These are those
// to its own errors, and to errors that a handler (see [Error]) or an inner
// middleware of this package returns.
//
// f gets every error that must be answered, including the error of a client
// that has gone. The middleware returns the error that f returns. If that is
// nil and f has written nothing, the status of outcome.Of is sent.
// WithErrorHandler panics if f is nil.
func WithErrorHandler(f func(c echo.Context, err error) error) AnswerOption {
	return with.ErrorHandler(f)
}

// WithHeldStatus sets the status of the answer for a key that was held until
// MaxWait ended. status is 423, 429 or 503 in place of 409, or 409 again on one
// route. Code and body stay the same. outcome.Of gives the same status to an
// error handler. WithHeldStatus panics for any other status.
//
// For a key that a handler wanted itself, 429 and 503 become 409. Clients
// repeat those two by themselves, and part of the work may be done.
func WithHeldStatus(status int) AnswerOption { return with.HeldStatus(status) }

// WithSkipper lets requests through without a lock if f returns true for them.
// f may be a middleware.Skipper. WithSkipper panics if f is nil.
func WithSkipper(f func(c echo.Context) bool) Option { return with.Skipper(f) }

// WithBodyLimit sets how many bytes of a body the middleware reads before the
// wait. A key's value is found in these bytes only. The default is 64 KiB, and
// 0 reads nothing. The memory is held as long as the request. WithBodyLimit
// panics if n is negative.
//
// A longer body is not read ahead. If the key needs it the answer is 413. If
// not, the waiter stays in the queue although its client has gone.
func WithBodyLimit(n int) Option { return with.BodyLimit(n) }

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY. SafeMethods
// is for groups whose other requests change something:
//
//	group.Use(lockmw.Key(g, "cart:{cart}", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c echo.Context) bool { return httpguard.IsSafe(c.Request().Method) }

// WithIdempotencyKey is an option of [Idempotent]. key names the request, in
// place of the header Idempotency-Key:
//
//	lockmw.WithIdempotencyKey(keyfunc.Header("X-GitHub-Delivery"))
//	lockmw.WithIdempotencyKey(keyfunc.JSON("id"))
//
// A request without the value gets 400, and so does a value of more than 255
// bytes. WithIdempotencyKey panics if key is nil.
func WithIdempotencyKey(key keyfunc.Func) Option { return with.IdempotencyKey(key) }

// WithFingerprint is an option of [Idempotent]. A request with a key that was
// used before is the same one if it has these values, whatever its method,
// path, query and body are. A payment that a client has serialised anew is
// still that payment:
//
//	lockmw.WithFingerprint(keyfunc.Path("account"), keyfunc.JSON("cents"))
//
// A request that lacks a value is refused as by [KeyFunc]. Name what tells two
// routes with one scope apart, or give each a scope of its own. Unless a
// function needs the body, its length has no limit. WithFingerprint panics
// without a function, or if one is nil.
func WithFingerprint(values ...keyfunc.Func) Option { return with.Fingerprint(values) }

// WithoutFingerprint is an option of [Idempotent]. Requests with the same scope
// and key are the same one, whatever else they have, on all routes. The length
// of the body has no limit.
func WithoutFingerprint() Option { return with.NoFingerprint() }

// WithOptionalKey is an option of [Idempotent]. Requests without an idempotency
// key pass, and their handler has no lease. Idempotent panics if it has
// [InTransaction] too, because such a handler would have no transaction.
func WithOptionalKey() Option { return with.OptionalKey() }

// WithReplayHook is an option of [Idempotent]. f is called before the answer of
// an earlier request is sent, for logs and metrics. f blocks the answer.
// WithReplayHook panics if f is nil.
func WithReplayHook(f func(c echo.Context)) Option { return with.ReplayHook(f) }

// WithKeptHeaders is an option of [Idempotent]. These headers of an answer are
// kept too. Always kept are Content-Type, Content-Language,
// Content-Disposition, Content-Encoding, Content-Range, Location, Allow, ETag,
// Last-Modified, Link, Cache-Control, Vary and X-Content-Type-Options. A header
// that a middleware outside has set before is left to that. WithKeptHeaders
// panics for one that is never kept, such as Set-Cookie.
func WithKeptHeaders(names ...string) Option { return with.KeptHeaders(names) }

// InTransaction is an option of [Idempotent]. The handler runs in a transaction
// of db, which it takes from its context by [sqlresult.TxFrom]. The answer is
// kept in table, and committed together with what the handler has written. An
// answer of 400 and above rolls that back. It is then kept by itself, unless it
// is one that [Idempotent] does not keep. The work of a request in db is done
// exactly once per key and ttl, also after a crash or a lost lease.
//
// The whole answer, however long, is held in memory until COMMIT: a flush sends
// nothing, and no connection can be taken over. If COMMIT gives no clear
// answer, or the database refuses it for a reason that may pass, the client
// gets 503 and the log a warning. The client gets the truth when it sends the
// request again. If the database refuses it for good, as a deferred constraint
// does, the client gets 500 and the log an error. The guard's store need not
// keep results, and WithAtMostOnce and WithResultLimit do not apply.
// InTransaction panics if db or table is nil.
func InTransaction(db *sql.DB, table *sqlresult.Table) Option {
	return with.InTransactionOf(httpguard.InTransaction(db, table))
}

// InTransactionOf is [InTransaction] for a driver beside database/sql. Package
// pgxtx makes once for pgx. InTransactionOf panics if once is nil.
func InTransactionOf(once sqlresult.OnceFunc) Option { return with.InTransactionOf(once) }

// Answers returns a middleware that sets how locks answer on all routes inside
// it. Answers also sets how [Error] answers there, in handlers without a lock
// too:
//
//	e.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...AnswerOption) echo.MiddlewareFunc {
	return routes.Answers(httpguard.NewConfig(opts).Answers)
}

// Package httpopt has the options of locks on HTTP routes that every framework
// has. The middleware of packages nethttp, gin, echo, echov5 and fiber take
// them:
//
//	lock := lockmw.Key(g, "stock:{sku}", httpopt.WithHeldStatus(http.StatusLocked))
//
// Options with a function of the framework, such as lockmw.WithErrorHandler and
// lockmw.WithSkipper, are in the framework's package. To change how a
// middleware locks, pass g.With(...) as the guard.
//
// # Idempotent
//
// The scope of lockmw.Idempotent says who sends the request. Equal keys of two
// scopes have nothing to do with each other. The scope should be a value that
// the client cannot choose, see [keyfunc.FromContext].
//
// Answers of 200 to 498 are kept, but not 401, 408, 425, 429, those of 400 and
// above with a Retry-After, and those of a lock inside. After the others the
// next request runs the handler. With [guard.WithAtMostOnce] it does so only
// after those named here, which say that nothing was done, and after a
// [guard.NothingDone].
//
// An answer that has taken over the connection, is cut, or is a stream of
// events, in Fiber any stream, is not kept either, but its handler does not run
// again. So it is with one that is longer than [guard.WithResultLimit], or was
// flushed to a client that has left.
package httpopt

import (
	"context"
	"database/sql"
	"net/http"
	"slices"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// Option changes which requests a middleware locks and how it answers. A
// middleware panics if one of its options is nil, or belongs to another
// framework.
type Option interface{ option }

// AnswerOption is an Option that changes how errors are answered. Given to
// lockmw.Answers it applies to all routes.
type AnswerOption interface{ answerOption }

// IdempotentOption is an option of lockmw.Idempotent and
// lockmw.IdempotentFrom. Every Option is one of these too.
type IdempotentOption interface{ idempotentOption }

type (
	option           = httpguard.Option
	answerOption     = httpguard.AnswerOption
	idempotentOption = httpguard.IdempotentOption
)

// WithHeldStatus sets the status of the answer for a key that was held until
// MaxWait ended. status is 423, 429 or 503 in place of 409, or 409 again on one
// route. Code and body stay the same. outcome.Of gives the same status to an
// error handler. WithHeldStatus panics for any other status.
//
// For a key that a handler wanted itself, 429 and 503 become 409. Clients
// repeat those two by themselves, and part of the work may be done.
func WithHeldStatus(status int) AnswerOption {
	known := []int{http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	httpguard.PanicIf(!slices.Contains(known, status),
		"the status of a held key is %d, want 409, 423, 429 or 503", status)
	return httpguard.ForAnswers(func(s *httpguard.Settings) { s.Held = status })
}

// WithBodyLimit sets the max number of bytes of a body in which a key's value
// is found. If the key needs a longer body the answer is 413. The default is 64
// KiB. WithBodyLimit panics if n is negative.
//
// A body within the limit is read before the wait, and held as long as the
// request. A longer one is not read ahead, and its waiter stays in the queue
// although its client has gone. With a limit of 0 that goes for every request.
// Fiber reads bodies in its own way, as its package says.
func WithBodyLimit(n int) Option {
	httpguard.PanicIf(n < 0, "the body limit is negative")
	return httpguard.ForLocks(func(s *httpguard.Settings) { s.BodyLimit = n })
}

// WithIdempotencyKey names the request by key, in place of the header
// Idempotency-Key:
//
//	httpopt.WithIdempotencyKey(keyfunc.Header("X-GitHub-Delivery"))
//	httpopt.WithIdempotencyKey(keyfunc.JSON("id"))
//
// A request without the value gets 400, and so does a value of more than 255
// bytes. WithIdempotencyKey panics if key is nil.
func WithIdempotencyKey(key keyfunc.Func) IdempotentOption {
	of := httpguard.ValueBy(key)
	return httpguard.ForIdempotent(func(s *httpguard.Settings) { s.Identity.Key = of })
}

// WithFingerprint lets these values alone tell requests with the same key
// apart. A request with a key that was used before is the same one if it has
// these values, whatever its method, path, query and body are. A payment that a
// client has serialised anew is still that payment:
//
//	httpopt.WithFingerprint(keyfunc.Path("account"), keyfunc.JSON("cents"))
//
// A request that lacks a value is refused as by lockmw.KeyFunc. Name what tells
// two routes with one scope apart, or give each a scope of its own. Unless a
// function needs the body, its length has no limit. WithFingerprint panics
// without a function, or if one is nil.
func WithFingerprint(values ...keyfunc.Func) IdempotentOption {
	of := httpguard.Values(values, httpguard.ValueBy)
	return httpguard.ForIdempotent(func(s *httpguard.Settings) { s.Identity.Values = of })
}

// WithoutFingerprint makes requests with the same scope and key the same one,
// whatever else they have, on all routes. The length of the body has no limit.
func WithoutFingerprint() IdempotentOption {
	return httpguard.ForIdempotent(func(s *httpguard.Settings) { s.Identity.KeyAlone() })
}

// WithOptionalKey lets requests without an idempotency key pass. Their handler
// has no lease. Idempotent panics if it has [InTransaction] too, because such a
// handler would have no transaction.
func WithOptionalKey() IdempotentOption {
	return httpguard.ForIdempotent(func(s *httpguard.Settings) { s.Identity.Optional = true })
}

// WithKeptHeaders keeps these headers of an answer too. Always kept are
// Content-Type, Content-Language, Content-Disposition, Content-Encoding,
// Content-Range, Location, Allow, ETag, Last-Modified, Link, Cache-Control,
// Vary and X-Content-Type-Options. A header that a middleware outside has set
// before is left to that. WithKeptHeaders panics for one that is never kept,
// such as Set-Cookie.
func WithKeptHeaders(names ...string) IdempotentOption {
	names = httpguard.Canonical(names)
	return httpguard.ForIdempotent(func(s *httpguard.Settings) { s.Headers = append(s.Headers, names...) })
}

// InTransaction runs the handler in a transaction of db, which it takes from
// its context by [sqlresult.TxFrom]. The answer is kept in table, and committed
// together with what the handler has written. An answer of 400 and above rolls
// that back. It is then kept by itself, unless it is one that Idempotent does
// not keep. The work of a request in db is done exactly once per key and ttl,
// also after a crash or a lost lease.
//
// The whole answer, however long, is held in memory until COMMIT: a flush sends
// nothing, and no connection can be taken over. If COMMIT gives no clear
// answer, or the database refuses it for a reason that may pass, the client
// gets 503 and the log a warning. The client gets the truth when it sends the
// request again. If the database refuses it for good, as a deferred constraint
// does, the client gets 500 and the log an error. The guard's store need not
// keep results, and WithAtMostOnce and WithResultLimit do not apply.
// InTransaction panics if db or table is nil.
//
// Fiber calls the function of a stream, or the one that takes over the
// connection, after COMMIT. Such an answer of 400 and above is not kept, and
// that of a timeout inside neither: the work is rolled back.
func InTransaction(db *sql.DB, table *sqlresult.Table) IdempotentOption {
	httpguard.PanicIf(db == nil || table == nil, "InTransaction without a database or a table")
	return InTransactionOf(func(ctx context.Context, g *guard.Guard, key string, o guard.OnceOptions,
		fn func(context.Context) ([]byte, error),
	) (guard.OnceResult, error) {
		return sqlresult.OnceBytes(ctx, g, db, table, key, o,
			func(ctx context.Context, _ *sql.Tx) ([]byte, error) { return fn(ctx) })
	})
}

// InTransactionOf is [InTransaction] for a driver beside database/sql. Package
// pgxtx makes once for pgx. InTransactionOf panics if once is nil.
func InTransactionOf(once sqlresult.OnceFunc) IdempotentOption {
	httpguard.PanicIf(once == nil, "InTransactionOf a nil function")
	return httpguard.ForIdempotent(func(s *httpguard.Settings) { s.Once = once })
}

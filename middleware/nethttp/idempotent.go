package lockmw

import (
	"database/sql"
	"net/http"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// Idempotent returns a middleware that carries out each request once, by its
// header Idempotency-Key. The answer is kept for ttl. A request that comes
// again gets it, with the header Idempotency-Replayed. One that comes while the
// first runs waits for it, for at most MaxWait.
//
// scope says who sends the request, such as the user or the tenant. Equal keys
// of two scopes have nothing to do with each other. It should be a value that
// the client cannot choose, see [keyfunc.FromContext]. Idempotent panics
// without one, and if ttl is less than 1 ms. A nil g is the default guard,
// looked up at each request. Its store must keep results, see [guard.Once].
//
// The handler runs under a lease, as in [Key]. Its answer is held back until it
// is kept. If the lease is lost, the answer is 500 and nothing is kept. Answers
// of 200 to 498 are kept, but not 408, 425, 429, 4xx with a Retry-After, and
// those of a lock inside. After the others the next request runs the handler,
// unless the guard has [guard.WithAtMostOnce]. An answer that was flushed,
// hijacked, cut or is longer than [guard.WithResultLimit] is not kept either,
// but its handler does not run again. Such an answer goes to the client as it is
// written. Trailers are not kept. An answer is kept too if its client has gone.
// If the handler has written nothing then, later requests get 409.
//
// Requests with safe methods pass, and their handler has no lease. docs/http.md
// says what clients send and get.
func Idempotent(
	g *guard.Guard, scope keyfunc.Func, ttl time.Duration, opts ...Option,
) func(http.Handler) http.Handler {
	cfg := newConfig(opts)
	once := httpguard.NewIdempotent(httpguard.New(g, cfg.bodyLimit), scope != nil, ttl, cfg.idempotent)
	keys := func(r *http.Request) (httpguard.Keys, error) { return httpguard.One(scope(r)) }
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if once.Passes(r) || cfg.skip != nil && cfg.skip(r) {
				next.ServeHTTP(w, r)
				return
			}
			x := &heldExchange{limit: once.Limit(), exchange: exchange{
				writer: writer{ResponseWriter: w, lock: once.Lock, request: r}, keys: keys,
				next: next, answers: cfg.answers,
			}}
			if err := once.Serve(x); err != nil {
				answer(x.shaped(), r, cfg.answers, err)
			}
		})
	}
}

// WithOptionalKey is an option of [Idempotent]. Requests without an
// Idempotency-Key pass, and their handler has no lease.
func WithOptionalKey() Option { return optionFunc(func(c *config) { c.idempotent.Optional = true }) }

// WithKeptHeaders is an option of [Idempotent]. These headers of an answer are
// kept too. Always kept are Content-Type, Content-Language, Content-Disposition,
// Content-Encoding, Content-Range, Location, ETag, Last-Modified, Link,
// Cache-Control, Vary and X-Content-Type-Options. A header that a middleware
// outside has set before is left to that. WithKeptHeaders panics for one that
// is never kept, such as Set-Cookie.
func WithKeptHeaders(names ...string) Option {
	names = httpguard.KeptHeaders(names)
	return optionFunc(func(c *config) { c.idempotent.Headers = append(c.idempotent.Headers, names...) })
}

// heldExchange is an exchange whose answer is held back.
type heldExchange struct {
	exchange

	limit int
	held  *httpguard.Capture
}

// Next serves the request under l. The exchange inside does not know whether
// the answer is held back.
func (x *heldExchange) Next(l *guard.Lease) {
	x.held = httpguard.NewCapture(x.shaped(), x.limit)
	inside := x.exchange
	inside.ResponseWriter = x.held
	inside.Next(l)
}

// Begun also knows of a connection that was taken over.
func (x *heldExchange) Begun() bool { return x.exchange.Begun() || x.held.Passed() }

func (x *heldExchange) Held() httpguard.Answer    { return x.held.Held() }
func (x *heldExchange) Send()                     { x.held.Send() }
func (x *heldExchange) Replay(a httpguard.Answer) { a.Write(x.shaped()) }

// InTransaction is an option of [Idempotent]. The handler runs in a transaction
// of db, which it takes from its context by [sqlresult.TxFrom]. The answer is
// kept in table, and committed together with what the handler has written.
// Before an answer that is not kept, all is rolled back. So the work of a
// request in db is done exactly once per key and ttl, also after a crash or a
// lost lease.
//
// The whole answer, however long, is held in memory until COMMIT: a flush sends
// nothing, and no connection can be taken over. If COMMIT fails or gives no
// clear answer, the client gets 503 and the log a warning. The client gets the
// truth when it sends the request again. The guard's store need not keep
// results, and WithAtMostOnce and WithResultLimit do not apply. InTransaction
// panics if db or table is nil.
func InTransaction(db *sql.DB, table *sqlresult.Table) Option {
	once := httpguard.InTransaction(db, table)
	return optionFunc(func(c *config) { c.idempotent.Once = once })
}

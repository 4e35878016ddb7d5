package lockmw

import (
	"bufio"
	"database/sql"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// Idempotent returns a middleware that carries out each request once, by its
// header Idempotency-Key. The answer is kept for ttl. A request that comes again
// gets it, with the header Idempotency-Replayed. One that comes while the first
// runs waits for it, for at most MaxWait.
//
// scope says who sends the request, such as the user or the tenant. Equal keys
// of two scopes have nothing to do with each other. It should be a value that
// the client cannot choose, see [keyfunc.FromContext]. Idempotent panics without
// one, and if ttl is less than 1 ms. A nil g is the default guard, looked up at
// each request. Its store must keep results, see [guard.Once].
//
// The chain goes on under a lease, as in [Key]. Its answer is held back until it
// is kept. If the lease is lost, the answer is 500 and nothing is kept. Answers
// of 200 to 498 are kept, but not 408, 425, 429, 4xx with a Retry-After, and
// those of a lock inside. After the others the next request runs the handler,
// unless the guard has [guard.WithAtMostOnce]. An answer that was flushed,
// hijacked, cut or is longer than [guard.WithResultLimit] is not kept either,
// but its handler does not run again.
//
// A handler that only leaves errors in c.Errors has not answered. What a
// middleware outside makes of them is not kept, and the log says so once.
//
// Requests with safe methods pass, and their handler has no lease. docs/http.md
// says what clients send and get.
func Idempotent(g *guard.Guard, scope keyfunc.Func, ttl time.Duration, opts ...Option) gin.HandlerFunc {
	cfg := newConfig(opts)
	once := httpguard.NewIdempotent(httpguard.New(g, cfg.bodyLimit), scope != nil, ttl, cfg.idempotent)
	keys := ofRequest(scope)
	return func(c *gin.Context) {
		if once.Passes(c.Request) || cfg.skip != nil && cfg.skip(c) {
			return
		}
		undo := cfg.setAnswers(c)
		defer undo()
		x := &heldExchange{exchange: exchange{c, once.Lock, keys}, limit: once.Limit()}
		if err := once.Serve(x); err != nil {
			answer(c, once.Lock, err)
		}
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
	held  *heldWriter
	left  bool // the chain has left errors, and nothing else
}

// Next runs the rest of the chain under l.
func (x *heldExchange) Next(l *guard.Lease) {
	c, outer, before := x.c, x.c.Writer, len(x.c.Errors)
	x.held = &heldWriter{
		ResponseWriter: outer, capture: httpguard.NewCapture(outer, x.limit), status: outer.Status(), size: unwritten,
	}
	c.Writer = x.held
	defer func() { c.Writer = outer }()
	x.exchange.Next(l)
	x.left = !x.held.Written() && len(c.Errors) > before
}

// Begun also knows of a connection that was taken over.
func (x *heldExchange) Begun() bool {
	return x.exchange.Begun() || x.held != nil && x.held.capture.Passed()
}

func (x *heldExchange) Held() httpguard.Answer {
	a := x.held.capture.Held()
	a.Silent = a.Silent && a.Status == x.held.status
	a.Status = x.held.status
	if x.left {
		a.Status = 0
	}
	return a
}

// Send also passes on a status that gin has yet to write.
func (x *heldExchange) Send() {
	x.held.capture.Send()
	x.c.Status(x.held.status)
	if x.held.Written() {
		x.c.Writer.WriteHeaderNow()
	}
}

func (x *heldExchange) Replay(a httpguard.Answer) {
	x.c.Abort()
	a.Write(x.c.Writer)
}

// heldWriter is gin's ResponseWriter on a Capture. The methods that it does not
// have are those of the writer below.
type heldWriter struct {
	gin.ResponseWriter

	capture *httpguard.Capture
	status  int
	size    int // of the body

	informed bool // the last header was informational, so WriteHeaderNow has nothing to write
}

// unwritten is the size of an answer before its header is written.
const unwritten = -1

func (w *heldWriter) Unwrap() http.ResponseWriter { return w.capture }
func (w *heldWriter) Header() http.Header         { return w.capture.Header() }
func (w *heldWriter) Status() int                 { return w.status }
func (w *heldWriter) Size() int                   { return w.size }
func (w *heldWriter) Written() bool               { return w.size != unwritten }

// WriteHeader sends an informational answer at once, and remembers the status
// of the answer.
func (w *heldWriter) WriteHeader(status int) {
	if status <= 0 || w.Written() {
		return
	}
	w.informed = status < http.StatusOK && status != http.StatusSwitchingProtocols
	if w.informed {
		w.capture.WriteHeader(status)
	} else {
		w.status = status
	}
}

func (w *heldWriter) WriteHeaderNow() {
	if !w.Written() && !w.informed {
		w.size = 0
		w.capture.WriteHeader(w.status)
	}
}

// begin writes the header of the answer, if nobody has done so.
func (w *heldWriter) begin() {
	w.informed = false
	w.WriteHeaderNow()
}

func (w *heldWriter) Write(b []byte) (int, error) {
	w.begin()
	n, err := w.capture.Write(b)
	w.size += n
	return n, err
}

func (w *heldWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *heldWriter) Flush() {
	w.begin()
	w.capture.Flush()
}

func (w *heldWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := w.capture.Hijack()
	if err == nil {
		w.size = max(w.size, 0)
	}
	return conn, buf, err
}

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

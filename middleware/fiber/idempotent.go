package lockmw

import (
	"errors"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/maxwait"
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
// The chain goes on under a lease, as in [Key]. fiber sends its answer when it is
// kept. If the lease is lost, the answer is 500 and nothing is kept. Answers of
// 200 to 498 are kept, but not 408, 425, 429, 4xx with a Retry-After, and those
// of a lock inside. After the others the next request runs the handler, unless
// the guard has [guard.WithAtMostOnce]. An answer that is a stream, takes over
// the connection or is longer than [guard.WithResultLimit] is not kept either,
// but its handler does not run again.
//
// The application's ErrorHandler answers errors of the chain inside, because its
// answers are kept too. So middleware outside sees no error.
//
// Requests with safe methods pass, and their handler has no lease. docs/http.md
// says what clients send and get.
func Idempotent(g *guard.Guard, scope keyfunc.Func, ttl time.Duration, opts ...Option) fiber.Handler {
	cfg := newConfig(opts)
	waits := maxwait.New(g, cfg.maxWait)
	on := func(g *guard.Guard) *httpguard.Idempotent {
		return httpguard.NewIdempotent(httpguard.New(g, cfg.bodyLimit), scope != nil, ttl, cfg.idempotent)
	}
	patient, hasty := on(g), on(waits.Short)
	keys := ofRequest(scope)
	return func(c fiber.Ctx) error {
		if httpguard.IsSafe(c.Method()) || cfg.skip != nil && cfg.skip(c) {
			return c.Next()
		}
		once := patient
		if waits.Cuts(c.Context()) {
			once = hasty
		}
		x := &heldExchange{exchange: exchange{c: c, lock: once.Lock, keys: keys}}
		x.req, x.bad = x.whole(cfg.bodyLimit)
		if once.Passes(x.req) {
			return c.Next()
		}
		undo := cfg.setAnswers(c)
		defer undo()
		if err := once.Serve(x); err != nil {
			return answer(c, once.Lock, errors.Join(err, x.err))
		}
		return x.err
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

// heldExchange is an exchange whose answer fiber holds back.
type heldExchange struct {
	exchange

	outer http.Header // of the answer, before the chain runs
}

// Begun reports whether nobody can hold the answer back, because it is a stream
// or the handler takes over the connection.
func (x *heldExchange) Begun() bool {
	return x.c.Response().IsBodyStream() || x.c.RequestCtx().Hijacked()
}

// Next runs the rest of the chain under l, and answers its error. A status that
// is informational is none, as for net/http.
func (x *heldExchange) Next(l *guard.Lease) {
	x.outer = headers(x.c.Response())
	x.exchange.Next(l)
	if x.c.Response().StatusCode() < http.StatusOK && !x.c.RequestCtx().Hijacked() {
		x.c.Status(http.StatusOK)
	}
	if x.err != nil {
		x.err = x.c.App().ErrorHandler(x.c, x.err)
	}
}

func (x *heldExchange) Held() httpguard.Answer {
	res := x.c.Response()
	a := httpguard.Answer{Status: res.StatusCode(), Header: headers(res), Outer: x.outer, Body: res.Body()}
	delete(a.Header, fiber.HeaderContentLength) // fiber sends the length of the body, whatever was set
	if x.err != nil {                           // the ErrorHandler has failed
		a.Status = 0
	}
	return a
}

// Send does nothing, because fiber sends the answer.
func (*heldExchange) Send() {}

func (x *heldExchange) Replay(a httpguard.Answer) {
	x.c.Status(a.Status)
	for name, values := range a.Header {
		x.c.Response().Header.Del(name)
		for _, value := range values {
			x.c.Response().Header.Add(name, value)
		}
	}
	x.c.Response().SetBodyRaw(a.Body)
}

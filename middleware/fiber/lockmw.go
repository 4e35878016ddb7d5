package lockmw

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/middleware/httpopt"
	"github.com/go-lockguard/guard/outcome"
)

// Key returns a middleware that serves one request at a time for each key that
// template makes. The template "stock:{sku}" is guard.Key("stock",
// c.Params("sku")). [keyfunc.Parse] describes templates. Key panics if the
// template is bad or has no placeholder.
//
// A nil g is the default guard, looked up at each request. For a route's own
// settings pass g.With(...).
//
// A request waits for its key for at most MaxWait, and for at most 1 s unless
// [WithMaxWait] says otherwise. The chain goes on only under the lease, and its
// error is returned unchanged. c.Context() ends when the lease is lost. Every
// other outcome gets an answer of package outcome.
func Key(g *guard.Guard, template string, opts ...httpopt.Option) fiber.Handler {
	return newMiddleware(g, httpguard.OfTemplate(template), opts)
}

// Static is [Key] for one constant key that all requests wait for. Static is
// for jobs that may run only once at a time, whatever their parameters. key is
// written like a template. For example, "jobs:nightly" is guard.Key("jobs",
// "nightly"). Static panics if key has a placeholder.
func Static(g *guard.Guard, key string, opts ...httpopt.Option) fiber.Handler {
	return newMiddleware(g, httpguard.OfConstant(key), opts)
}

// KeyFunc is [Key] with a function that makes the key of the request. The
// function gets a copy of the request, and its changes to the copy are lost.
// The copy has the decoded path parameters in its PathValue, and c.Context() as
// its context.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...httpopt.Option) fiber.Handler {
	return newMiddleware(g, httpguard.OfRequest(key), opts)
}

// KeyFrom is [Key] with a function that makes the key of the fiber.Ctx. KeyFrom
// is for values that an earlier middleware put there. Build the key with
// guard.Key. An error that is not one of keyfunc or guard is logged and goes to
// the application's ErrorHandler. Unless it is a *fiber.Error its text there is
// "Internal Server Error", because fiber sends texts to the client.
func KeyFrom(g *guard.Guard, key func(fiber.Ctx) (string, error), opts ...httpopt.Option) fiber.Handler {
	return newMiddleware(g, httpguard.OfContext(cloned(key)), opts)
}

// cloned returns f with its value copied, because that may be in the memory of
// the request, which fiber reuses.
func cloned(f func(fiber.Ctx) (string, error)) func(fiber.Ctx) (string, error) {
	if f == nil {
		return nil
	}
	return func(c fiber.Ctx) (string, error) {
		v, err := f(c)
		return strings.Clone(v), err
	}
}

// Keys is [Key] for all keys that the templates make of one request. The
// handler runs under all the leases, and guard.LeaseOf finds each.
// [keyfunc.ParseKeys] describes templates with lists, such as
// "stock:{json.items[].sku}".
//
// The keys are taken as [guard.Guard.DoAll] takes them, each once, and MaxWait
// bounds all the waiting. A request with more than 64 keys is refused with
// status 413. Keys panics if there are no templates, or if one is bad or has no
// placeholder. For options pass [keyfunc.MustParseKeys] to KeysFunc.
func Keys(g *guard.Guard, templates ...string) fiber.Handler {
	return newMiddleware(g, httpguard.OfTemplates(templates), nil)
}

// KeysFunc is [Keys] with a function that makes the keys of the request, as
// [KeyFunc] is to [Key]. No keys at all are a server error. If the client left
// them out, return an error of keyfunc.
func KeysFunc(g *guard.Guard, keys func(*http.Request) ([]string, error), opts ...httpopt.Option) fiber.Handler {
	return newMiddleware(g, httpguard.SeveralOfRequest(keys), opts)
}

func newMiddleware(g *guard.Guard, keys httpguard.Source, opts []httpopt.Option) fiber.Handler {
	cfg := httpguard.NewConfig(with, opts)
	waits := httpguard.NewWaits(g, cfg.MaxWait)
	patient, hasty := cfg.Lock(g), cfg.Lock(waits.Short)
	return func(c fiber.Ctx) error {
		if cfg.Skips(c) {
			return c.Next()
		}
		undo := carry(c, cfg.Answers)
		defer undo()
		lock := patient
		if waits.Cuts(c.Context()) {
			lock = hasty
		}
		x := exchanges.Get().(*exchange)
		*x = exchange{c: c, lock: lock, keys: keys}
		if keys.Path {
			x.req = x.light()
		} else {
			x.req, x.bad = x.whole(lock.BodyLimit())
		}
		err, own := lock.Serve(x), x.err
		*x = exchange{}
		exchanges.Put(x) // not after a panic
		if err == nil {
			return own
		}
		return answer(c, lock, errors.Join(err, own))
	}
}

// Idempotent returns a middleware that carries out each request once, by its
// header Idempotency-Key or [httpopt.WithIdempotencyKey]. The answer is kept
// for ttl. A request that comes again gets it, with the header
// Idempotency-Replayed. One that comes while the first runs waits for it, for
// at most MaxWait.
//
// scope says who sends the request, such as the user or the tenant, see
// [httpopt]. Idempotent panics without one, and if ttl is less than 1 ms. A nil
// g is the default guard, looked up at each request. Its store must keep
// results, see [guard.Once].
//
// The chain goes on under a lease, as in [Key]. fiber sends its answer when it
// is kept. [httpopt] says which answers are, and a [guard.NothingDone] is one
// that the handler returns. If the lease is lost, the answer is 500 and nothing
// is kept. The answer of a timeout whose handler runs on is not kept, but its
// handler does not run again.
//
// The application's ErrorHandler answers errors of the chain inside, because
// its answers are kept too. Therefore middleware outside sees no error.
//
// Requests with safe methods pass, and their handler has no lease. docs/http.md
// says what clients send and get.
func Idempotent(
	g *guard.Guard, scope keyfunc.Func, ttl time.Duration, opts ...httpopt.IdempotentOption,
) fiber.Handler {
	return newIdempotent(g, httpguard.ScopeOfRequest(scope), ttl, opts)
}

// IdempotentFrom is [Idempotent] with a scope that a function finds in the
// fiber.Ctx. IdempotentFrom is for the user or tenant that an authentication
// has put there with c.Locals. Its errors are answered as those of [KeyFrom].
func IdempotentFrom(
	g *guard.Guard, scope func(fiber.Ctx) (string, error), ttl time.Duration, opts ...httpopt.IdempotentOption,
) fiber.Handler {
	return newIdempotent(g, httpguard.ScopeOfContext(cloned(scope)), ttl, opts)
}

func newIdempotent(
	g *guard.Guard, scope httpguard.Source, ttl time.Duration, opts []httpopt.IdempotentOption,
) fiber.Handler {
	cfg := httpguard.NewConfig(with, opts)
	waits := httpguard.NewWaits(g, cfg.MaxWait)
	patient, hasty := cfg.Idempotent(g, ttl), cfg.Idempotent(waits.Short, ttl)
	return func(c fiber.Ctx) error {
		if httpguard.IsSafe(c.Method()) || cfg.Skips(c) {
			return c.Next()
		}
		once := patient
		if waits.Cuts(c.Context()) {
			once = hasty
		}
		x := &heldExchange{exchange: exchange{c: c, lock: once.Lock, keys: scope}, once: once}
		undo := carry(c, cfg.Answers)
		defer undo()
		if x.req, x.bad = x.whole(once.BodyLimit()); x.bad != nil {
			return answer(c, once.Lock, x.bad)
		}
		switch err := once.Serve(x); {
		case errors.Is(err, httpguard.ErrPasses):
			return c.Next()
		case err != nil && !abandoned(c):
			return answer(c, once.Lock, errors.Join(err, x.err))
		}
		return x.err
	}
}

// Error answers an error that guard or keyfunc returned inside a handler, as
// the middleware would have done, and returns nil. Error drops the body that
// the handler has written. Any other error, or nil, is returned unchanged, and
// nothing is done.
//
//	if err := stock.Buy(c.Context(), sku); err != nil {
//		return lockmw.Error(c, err)
//	}
//
// The answer never has a Retry-After, because the handler may have done part of
// its work. Some clients repeat 429 and 503 even so. A handler that must not
// run twice takes its keys before it does anything, see docs/http.md.
//
// An empty key is treated as a server error and answered with 500. If the
// client left the value out, use the error &keyfunc.Error{Source: "json", Name:
// "sku", Err: keyfunc.ErrMissing}. The answer is then 400.
func Error(c fiber.Ctx, err error) error {
	if _, ours := outcome.Of(c.Context(), err); !ours {
		return err
	}
	lock, _ := c.Locals(lockKey).(*httpguard.Lock)
	return answer(c, lock, errnote.With(err, errnote.Ran(true)))
}

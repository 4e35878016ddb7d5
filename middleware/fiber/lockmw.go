package lockmw

import (
	"errors"
	"strings"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/maxwait"
	"github.com/go-lockguard/guard/keyfunc"
)

// Key returns a middleware that serves one request at a time for each key that
// template makes, see [keyfunc.Parse]: "stock:{sku}" is guard.Key("stock",
// c.Params("sku")). It panics if the template is bad, or has no placeholder. A
// nil g is the default guard, looked up at each request; for a route's own
// settings pass g.With(...).
//
// A request waits for its key for at most MaxWait, and for 1 s: see
// [WithMaxWait]. The chain goes on only under the lease, with c.Context()
// ending when the lease is lost, and its error is returned untouched. Every
// other outcome gets an answer of package outcome.
func Key(g *guard.Guard, template string, opts ...Option) fiber.Handler {
	t := httpguard.Template(template)
	return newMiddleware(g, !t.PathOnly(), func(x *exchange) (string, error) { return t.Key(x.req, x) }, opts)
}

// Static is [Key] for one constant key, which all requests wait for: jobs that
// may run once at a time, whatever they are about. It is written like a
// template, "jobs:nightly" for guard.Key("jobs", "nightly"), and panics if it
// has a placeholder.
func Static(g *guard.Guard, key string, opts ...Option) fiber.Handler {
	key = httpguard.Constant(key)
	return newMiddleware(g, false, func(*exchange) (string, error) { return key, nil }, opts)
}

// KeyFunc is [Key] with a function that makes the key of the request. It gets a
// copy of the request, with the path parameters in its PathValue, decoded, and
// c.Context() as its context. What it changes there is lost.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...Option) fiber.Handler {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, true, func(x *exchange) (string, error) {
		x.setPath()
		return key(x.req)
	}, opts)
}

// KeyFrom is [Key] with a function that makes the key of the fiber.Ctx, for
// values that an earlier middleware put there. Build the key with guard.Key. An
// error that is not one of keyfunc or guard is logged, and goes to the
// application's ErrorHandler; unless it is a *fiber.Error its text there is
// "Internal Server Error", because fiber sends texts to the client.
func KeyFrom(g *guard.Guard, key func(fiber.Ctx) (string, error), opts ...Option) fiber.Handler {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, false, func(x *exchange) (string, error) {
		k, err := key(x.c)
		return strings.Clone(k), err // it may be of the request's memory, which is used again
	}, opts)
}

// newMiddleware needs to know whether key looks at the whole request.
func newMiddleware(g *guard.Guard, whole bool, key func(*exchange) (string, error), opts []Option) fiber.Handler {
	cfg := newConfig(opts)
	waits := maxwait.New(g, cfg.maxWait)
	patient, hasty := httpguard.New(g, cfg.bodyLimit), httpguard.New(waits.Short, cfg.bodyLimit)
	return func(c fiber.Ctx) error {
		if cfg.skip != nil && cfg.skip(c) {
			return c.Next()
		}
		if cfg.answers.Any() {
			before := answersIn(c)
			c.Locals(answersKey, cfg.answers.Over(before))
			defer c.Locals(answersKey, before)
		}
		lock := patient
		if waits.Cuts(c.Context()) {
			lock = hasty
		}
		x := exchanges.Get().(*exchange)
		*x = exchange{c: c, lock: lock, key: key}
		if whole {
			x.req, x.bad = x.whole()
		} else {
			x.req = x.light()
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

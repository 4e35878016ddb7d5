package lockmw

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/maxwait"
	"github.com/go-lockguard/guard/keyfunc"
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
func Key(g *guard.Guard, template string, opts ...Option) fiber.Handler {
	t := httpguard.Template(template)
	return newMiddleware(g, !t.PathOnly(), func(x *exchange) (httpguard.Keys, error) {
		return httpguard.One(t.Key(x.req, x))
	}, opts)
}

// Static is [Key] for one constant key that all requests wait for. It is for
// jobs that may run only once at a time, whatever their parameters. key is
// written like a template. For example, "jobs:nightly" is guard.Key("jobs",
// "nightly"). Static panics if key has a placeholder.
func Static(g *guard.Guard, key string, opts ...Option) fiber.Handler {
	key = httpguard.Constant(key)
	return newMiddleware(g, false, func(*exchange) (httpguard.Keys, error) { return httpguard.One(key, nil) }, opts)
}

// KeyFunc is [Key] with a function that makes the key of the request. The
// function gets a copy of the request, and its changes to the copy are lost.
// The copy has the decoded path parameters in its PathValue, and c.Context() as
// its context.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...Option) fiber.Handler {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, true, ofRequest(key), opts)
}

// ofRequest returns the function of the exchange that key is for the request.
func ofRequest(key keyfunc.Func) func(*exchange) (httpguard.Keys, error) {
	return func(x *exchange) (httpguard.Keys, error) {
		x.setPath()
		return httpguard.One(key(x.req))
	}
}

// KeyFrom is [Key] with a function that makes the key of the fiber.Ctx. It is
// for values that an earlier middleware put there. Build the key with
// guard.Key. An error that is not one of keyfunc or guard is logged and goes to
// the application's ErrorHandler. Unless it is a *fiber.Error its text there is
// "Internal Server Error", because fiber sends texts to the client.
func KeyFrom(g *guard.Guard, key func(fiber.Ctx) (string, error), opts ...Option) fiber.Handler {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, false, func(x *exchange) (httpguard.Keys, error) {
		k, err := key(x.c)
		return httpguard.One(strings.Clone(k), err) // it may be in the request's memory, which fiber reuses
	}, opts)
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
	t := httpguard.Templates(templates)
	return newMiddleware(g, !t.PathOnly(), func(x *exchange) (httpguard.Keys, error) {
		return httpguard.All(t.Keys(x.req, x))
	}, nil)
}

// KeysFunc is [Keys] with a function that makes the keys of the request, as
// [KeyFunc] is to [Key]. No keys at all are a server error. If the client left
// them out, return an error of keyfunc.
func KeysFunc(
	g *guard.Guard, keys func(*http.Request) ([]string, error), opts ...Option,
) fiber.Handler {
	if keys == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, true, func(x *exchange) (httpguard.Keys, error) {
		x.setPath()
		return httpguard.All(keys(x.req))
	}, opts)
}

// newMiddleware must be told whether keys looks at the whole request.
func newMiddleware(
	g *guard.Guard, whole bool, keys func(*exchange) (httpguard.Keys, error), opts []Option,
) fiber.Handler {
	cfg := newConfig(opts)
	cfg.idempotent.OnlyIdempotent()
	waits := maxwait.New(g, cfg.maxWait)
	keys = unread(keys)
	patient, hasty := httpguard.New(g, cfg.bodyLimit), httpguard.New(waits.Short, cfg.bodyLimit)
	return func(c fiber.Ctx) error {
		if cfg.skip != nil && cfg.skip(c) {
			return c.Next()
		}
		undo := cfg.setAnswers(c)
		defer undo()
		lock := patient
		if waits.Cuts(c.Context()) {
			lock = hasty
		}
		x := exchanges.Get().(*exchange)
		*x = exchange{c: c, lock: lock, keys: keys}
		if whole {
			x.req, x.bad = x.whole(cfg.bodyLimit)
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

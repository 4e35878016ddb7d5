package lockmw

import (
	"time"

	"github.com/gofiber/fiber/v3"

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
	onError      = func(fiber.Ctx, error) error
	answers      = httpguard.Answers[onError]
	option       = httpguard.Option[onError, fiber.Ctx]
	answerOption = httpguard.AnswerOption[onError, fiber.Ctx]
)

func newConfig(opts []Option) httpguard.Config[onError, fiber.Ctx] {
	return httpguard.NewConfig(append([]Option{WithMaxWait(time.Second)}, opts...))
}

// with makes the options.
var with httpguard.Options[onError, fiber.Ctx]

// WithMaxWait limits the wait of a request if the guard's MaxWait is longer.
// The default is 1 s, because fasthttp does not tell that a client has gone.
// The request of such a client stays in the queue, and runs when its turn
// comes. If a guard's MaxWait is shortened, that is logged once. WithMaxWait
// panics if d is negative.
func WithMaxWait(d time.Duration) Option { return with.MaxWait(d) }

// WithErrorHandler replaces the answers of this middleware, and those of
// [Error] and middleware of this package inside it.
//
// f gets every error that must be answered. The status of outcome.Of is set
// already, so f need not write anything. An error that f returns goes to the
// application's ErrorHandler. WithErrorHandler panics if f is nil.
func WithErrorHandler(f func(c fiber.Ctx, err error) error) AnswerOption { return with.ErrorHandler(f) }

// WithHeldStatus sets the status of the answer for a key that was held until
// MaxWait ended. status is 423, 429 or 503 in place of 409, or 409 again on one
// route. Code and body stay the same. outcome.Of gives the same status to an
// error handler. WithHeldStatus panics for any other status.
//
// For a key that a handler wanted itself, 429 and 503 become 409. Clients
// repeat those two by themselves, and part of the work may be done.
func WithHeldStatus(status int) AnswerOption { return with.HeldStatus(status) }

// WithSkipper lets requests through without a lock if f returns true for them.
// WithSkipper panics if f is nil.
func WithSkipper(f func(c fiber.Ctx) bool) Option { return with.Skipper(f) }

// WithBodyLimit sets the max number of bytes of a body in which a key's value
// is found. If the key needs a longer body the answer is 413. The default is 64
// KiB. WithBodyLimit panics if n is negative.
func WithBodyLimit(n int) Option { return with.BodyLimit(n) }

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY. SafeMethods
// is for groups whose other requests change something:
//
//	group.Use(lockmw.Static(g, "import", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c fiber.Ctx) bool { return httpguard.IsSafe(c.Method()) }

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
// key pass, and their handler has no lease.
func WithOptionalKey() Option { return with.OptionalKey() }

// WithReplayHook is an option of [Idempotent]. f is called before the answer of
// an earlier request is sent, for logs and metrics. f blocks the answer.
// WithReplayHook panics if f is nil.
func WithReplayHook(f func(c fiber.Ctx)) Option { return with.ReplayHook(f) }

// WithKeptHeaders is an option of [Idempotent]. These headers of an answer are
// kept too. Always kept are Content-Type, Content-Language,
// Content-Disposition, Content-Encoding, Content-Range, Location, Allow, ETag,
// Last-Modified, Link, Cache-Control, Vary and X-Content-Type-Options. A header
// that a middleware outside has set before is left to that. WithKeptHeaders
// panics for one that is never kept, such as Set-Cookie.
func WithKeptHeaders(names ...string) Option { return with.KeptHeaders(names) }

// Answers returns a middleware that sets how locks answer on all routes inside
// it. Answers also sets how [Error] answers there, in handlers without a lock
// too:
//
//	app.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...AnswerOption) fiber.Handler {
	a := httpguard.NewConfig(opts).Answers
	return func(c fiber.Ctx) error {
		undo := carry(c, a)
		defer undo()
		return c.Next()
	}
}

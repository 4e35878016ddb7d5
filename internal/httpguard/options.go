package httpguard

import (
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/readahead"
	"github.com/go-lockguard/guard/keyfunc"
)

// Config is what the options of an adapter set. H is the type of its error
// handlers, and C of what its skippers look at.
type Config[H, C any] struct {
	Answers[H]

	MaxWait time.Duration // of an adapter that limits waits

	skip       func(C) bool // nil: none
	bodyLimit  int
	idempotent idempotentOptions
}

// idempotentOptions are the options that only an idempotent middleware has.
type idempotentOptions struct {
	identity IdentityOptions[HeldExchange]
	headers  []string           // kept besides those that always are
	once     sqlresult.OnceFunc // nil: answers are kept in the store of the locks
	replayed func(HeldExchange) // called before each replay; nil: nobody is
}

// NewConfig returns what opts set. NewConfig panics if one is nil.
func NewConfig[H, C any, O Option[H, C]](opts []O) Config[H, C] {
	cfg := Config[H, C]{bodyLimit: readahead.Limit}
	for _, o := range opts {
		if any(o) == nil {
			panic("lockmw: an option is nil")
		}
		o.apply(&cfg)
	}
	return cfg
}

// Skips reports whether a request passes without a lock.
func (cfg *Config[H, C]) Skips(c C) bool { return cfg.skip != nil && cfg.skip(c) }

// Lock returns the Lock of a middleware. Lock panics if cfg has options that
// only Idempotent takes.
func (cfg *Config[H, C]) Lock(g *guard.Guard) *Lock {
	if o := cfg.idempotent; o.identity.Any() || o.headers != nil || o.once != nil || o.replayed != nil {
		panic("lockmw: an option of Idempotent is not one of a lock")
	}
	return &Lock{guard: g, bodyLimit: cfg.bodyLimit}
}

// Idempotent returns the Idempotent of a middleware. Idempotent panics unless
// ttl is at least 1 ms, and each request that is served has the transaction
// that its handler needs. The Keys of its exchanges give the scope.
func (cfg *Config[H, C]) Idempotent(g *guard.Guard, ttl time.Duration) *Idempotent {
	if o := cfg.idempotent; o.once != nil && o.identity.Optional {
		panic("lockmw: WithOptionalKey with InTransaction: a request without a key would run without a transaction")
	}
	if ttl < time.Millisecond {
		panic(fmt.Sprintf("lockmw: Idempotent keeps answers for %v, want at least 1ms", ttl))
	}
	return &Idempotent{
		Lock: &Lock{guard: g, bodyLimit: cfg.bodyLimit}, idempotentOptions: cfg.idempotent, ttl: ttl,
		identity: Identity[HeldExchange]{
			IdentityOptions: cfg.idempotent.identity, Whole: wholeRequest,
			Scope: func(x HeldExchange) (string, error) {
				keys, err := x.Keys()
				return keys.one, err
			},
			Header: func(x HeldExchange) []string { return x.Request().Header[keyHeader] },
		},
	}
}

// Option is an option of an adapter, which declares it again under its own
// name.
type Option[H, C any] interface{ apply(*Config[H, C]) }

// AnswerOption is an Option that changes how errors are answered.
type AnswerOption[H, C any] interface {
	Option[H, C]
	answers() // marks it
}

type optionFunc[H, C any] func(*Config[H, C])

func (f optionFunc[H, C]) apply(cfg *Config[H, C]) { f(cfg) }

type answerFunc[H, C any] func(*Answers[H])

func (f answerFunc[H, C]) apply(cfg *Config[H, C]) { f(&cfg.Answers) }
func (answerFunc[H, C]) answers()                  {}

// Options makes the options of an adapter. The adapter's functions of the same
// names tell users what they do.
type Options[H, C any] struct{}

// ErrorHandler makes WithErrorHandler. H must be a function.
func (Options[H, C]) ErrorHandler(f H) AnswerOption[H, C] {
	if reflect.ValueOf(f).IsNil() {
		panic("lockmw: the error handler is nil")
	}
	return answerFunc[H, C](func(a *Answers[H]) { a.OnError = &f })
}

// HeldStatus makes WithHeldStatus.
func (Options[H, C]) HeldStatus(status int) AnswerOption[H, C] {
	switch status {
	case http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests, http.StatusServiceUnavailable:
	default:
		panic(fmt.Sprintf("lockmw: the status of a held key is %d, want 409, 423, 429 or 503", status))
	}
	return answerFunc[H, C](func(a *Answers[H]) { a.Held = status })
}

// Skipper makes WithSkipper.
func (Options[H, C]) Skipper(f func(C) bool) Option[H, C] {
	if f == nil {
		panic("lockmw: the skipper is nil")
	}
	return optionFunc[H, C](func(cfg *Config[H, C]) { cfg.skip = f })
}

// BodyLimit makes WithBodyLimit.
func (Options[H, C]) BodyLimit(n int) Option[H, C] {
	if n < 0 {
		panic("lockmw: the body limit is negative")
	}
	return optionFunc[H, C](func(cfg *Config[H, C]) { cfg.bodyLimit = n })
}

// OptionalKey makes WithOptionalKey.
func (Options[H, C]) OptionalKey() Option[H, C] {
	return optionFunc[H, C](func(cfg *Config[H, C]) { cfg.idempotent.identity.Optional = true })
}

// IdempotencyKey makes WithIdempotencyKey.
func (Options[H, C]) IdempotencyKey(key keyfunc.Func) Option[H, C] {
	of := valueBy(key)
	return optionFunc[H, C](func(cfg *Config[H, C]) { cfg.idempotent.identity.Key = of })
}

// NoValues is the panic of a WithFingerprint without functions.
const NoValues = "lockmw: WithFingerprint without a function. If you mean that, use WithoutFingerprint"

// Fingerprint makes WithFingerprint.
func (Options[H, C]) Fingerprint(values []keyfunc.Func) Option[H, C] {
	if len(values) == 0 {
		panic(NoValues)
	}
	of := make([]func(HeldExchange) (string, error), len(values))
	for i, value := range values {
		of[i] = valueBy(value)
	}
	return optionFunc[H, C](func(cfg *Config[H, C]) { cfg.idempotent.identity.Values = of })
}

// NoFingerprint makes WithoutFingerprint.
func (Options[H, C]) NoFingerprint() Option[H, C] {
	return optionFunc[H, C](func(cfg *Config[H, C]) {
		cfg.idempotent.identity.Values = []func(HeldExchange) (string, error){}
	})
}

// valueBy returns f for an exchange. valueBy panics if f is nil.
func valueBy(f keyfunc.Func) func(HeldExchange) (string, error) {
	refuseNil(f == nil)
	return func(x HeldExchange) (string, error) { return x.Value(f) }
}

// ReplayHook makes WithReplayHook. The exchanges of the adapter must have a
// method Context that returns a C.
func (Options[H, C]) ReplayHook(f func(C)) Option[H, C] {
	if f == nil {
		panic("lockmw: the replay hook is nil")
	}
	return optionFunc[H, C](func(cfg *Config[H, C]) {
		cfg.idempotent.replayed = func(x HeldExchange) { f(x.(interface{ Context() C }).Context()) }
	})
}

// KeptHeaders makes WithKeptHeaders.
func (Options[H, C]) KeptHeaders(names []string) Option[H, C] {
	names = canonical(names)
	return optionFunc[H, C](func(cfg *Config[H, C]) {
		cfg.idempotent.headers = append(cfg.idempotent.headers, names...)
	})
}

// InTransactionOf makes InTransactionOf.
func (Options[H, C]) InTransactionOf(once sqlresult.OnceFunc) Option[H, C] {
	if once == nil {
		panic("lockmw: InTransactionOf a nil function")
	}
	return optionFunc[H, C](func(cfg *Config[H, C]) { cfg.idempotent.once = once })
}

// MaxWait makes WithMaxWait.
func (Options[H, C]) MaxWait(d time.Duration) Option[H, C] {
	CheckMaxWait(d)
	return optionFunc[H, C](func(cfg *Config[H, C]) { cfg.MaxWait = d })
}

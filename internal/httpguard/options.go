package httpguard

import (
	"reflect"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/readahead"
)

// Settings are what options set that every framework has. Package httpopt makes
// these options.
type Settings struct {
	Held      int // status of a held key, see [Answers]
	BodyLimit int

	// of an idempotent middleware alone

	Identity IdentityOptions[HeldExchange]
	Headers  []string           // kept besides those that always are, in their canonical form
	Once     sqlresult.OnceFunc // nil: answers are kept in the store of the locks
}

// Config is what the options of an adapter set. H is the type of its error
// handlers, and C of what its skippers look at.
type Config[H, C any] struct {
	Answers[H]

	MaxWait time.Duration // of an adapter that limits waits

	settings Settings
	skip     func(C) bool       // nil: none
	replayed func(HeldExchange) // called before each replay; nil: nobody is
}

// NewConfig returns what opts set in the adapter of the given Options.
// NewConfig panics if one is nil, or is an option of another framework.
func NewConfig[H, C any, O IdempotentOption](with Options[H, C], opts []O) Config[H, C] {
	cfg := Config[H, C]{MaxWait: with.DefaultMaxWait, settings: Settings{BodyLimit: readahead.Limit}}
	for _, o := range opts {
		PanicIf(any(o) == nil, "an option is nil")
		o.apply(&cfg.settings, &cfg)
	}
	cfg.Held = cfg.settings.Held
	return cfg
}

// Skips reports whether a request passes without a lock.
func (cfg *Config[H, C]) Skips(c C) bool { return cfg.skip != nil && cfg.skip(c) }

// Lock returns the Lock of a middleware.
func (cfg *Config[H, C]) Lock(g *guard.Guard) *Lock {
	return &Lock{guard: g, bodyLimit: cfg.settings.BodyLimit}
}

// Idempotent returns the Idempotent of a middleware. Idempotent panics unless
// ttl is at least 1 ms, and each request that is served has the transaction
// that its handler needs. The Keys of its exchanges give the scope.
func (cfg *Config[H, C]) Idempotent(g *guard.Guard, ttl time.Duration) *Idempotent {
	s := cfg.settings
	PanicIf(s.Once != nil && s.Identity.Optional,
		"WithOptionalKey with InTransaction: a request without a key would run without a transaction")
	CheckTTL(ttl)
	return &Idempotent{
		Lock: cfg.Lock(g), headers: s.Headers, once: s.Once, replayed: cfg.replayed, ttl: ttl,
		identity: Identity[HeldExchange]{
			IdentityOptions: s.Identity, Whole: wholeRequest,
			Scope: func(x HeldExchange) (string, error) {
				keys, err := x.Keys()
				return keys.one, err
			},
			Header: func(x HeldExchange) []string { return x.Request().Header[keyHeader] },
		},
	}
}

// The options of locks are options of Idempotent too, and those of answers are
// options of both. Package httpopt declares the three again for users.
type (
	// IdempotentOption is an option of Idempotent.
	IdempotentOption interface{ apply(*Settings, any) }

	// Option is an option of locks.
	Option interface {
		IdempotentOption
		ofLocks()
	}

	// AnswerOption is an Option that changes how errors are answered.
	AnswerOption interface {
		Option
		ofAnswers()
	}
)

// ForIdempotent returns an option that every framework has.
func ForIdempotent(f func(*Settings)) IdempotentOption { return setting(f) }

// ForLocks is [ForIdempotent] for an [Option].
func ForLocks(f func(*Settings)) Option { return lockOption{setting(f)} }

// ForAnswers is [ForIdempotent] for an [AnswerOption].
func ForAnswers(f func(*Settings)) AnswerOption { return answerOption{lockOption{setting(f)}} }

type setting func(*Settings)

func (f setting) apply(s *Settings, _ any) { f(s) }

// own is an option of one framework. Its apply takes a *Config[H, C].
type own[H, C any] func(*Config[H, C])

func (f own[H, C]) apply(_ *Settings, cfg any) {
	c, ours := cfg.(*Config[H, C])
	PanicIf(!ours, "an option of another framework, with a function for %v", reflect.TypeFor[C]())
	f(c)
}

type lockOption struct{ IdempotentOption }

func (lockOption) ofLocks() {}

type answerOption struct{ lockOption }

func (answerOption) ofAnswers() {}

// Options makes the options that only one framework has. The adapter's
// functions of the same names tell users what they do.
type Options[H, C any] struct {
	DefaultMaxWait time.Duration // without WithMaxWait, in an adapter that limits waits
}

// ErrorHandler makes WithErrorHandler. H must be a function.
func (Options[H, C]) ErrorHandler(f H) AnswerOption {
	PanicIf(reflect.ValueOf(f).IsNil(), "the error handler is nil")
	return answerOption{lockOption{own[H, C](func(cfg *Config[H, C]) { cfg.OnError = &f })}}
}

// Skipper makes WithSkipper.
func (Options[H, C]) Skipper(f func(C) bool) Option {
	PanicIf(f == nil, "the skipper is nil")
	return lockOption{own[H, C](func(cfg *Config[H, C]) { cfg.skip = f })}
}

// ReplayHook makes WithReplayHook. The exchanges of the adapter must have a
// method Context that returns a C.
func (Options[H, C]) ReplayHook(f func(C)) IdempotentOption {
	PanicIf(f == nil, NilReplayHook)
	return own[H, C](func(cfg *Config[H, C]) {
		cfg.replayed = func(x HeldExchange) { f(x.(interface{ Context() C }).Context()) }
	})
}

// MaxWait makes WithMaxWait.
func (Options[H, C]) MaxWait(d time.Duration) Option {
	CheckMaxWait(d)
	return lockOption{own[H, C](func(cfg *Config[H, C]) { cfg.MaxWait = d })}
}

package guard

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// Option changes one setting. [New] takes it for a whole family, and
// [Guard.With] for a route.
type Option interface {
	apply(*config) error
}

// setting is an option that sets something. If its value is wrong, it says so
// and sets nothing.
type setting struct {
	set   func(c *config)
	wrong error
}

func (s setting) apply(c *config) error {
	if s.wrong == nil {
		s.set(c)
	}
	return s.wrong
}

// checked is a setting whose value may be wrong. The text says what it is then.
func checked(right bool, set func(c *config), text string, args ...any) Option {
	if !right {
		return setting{wrong: invalid(text, args...)}
	}
	return setting{set: set}
}

// duration is a setting that must not be negative, nor seem to lack its unit.
// For example, WithMaxWait(3) would wait for 3 ns.
func duration(name string, d time.Duration, set func(c *config)) Option {
	return checked(d == 0 || d >= time.Millisecond, set,
		"%s is %v, want 0 or at least 1ms: 3*time.Second, not 3", name, d)
}

// config is the settings that options change. A Guard's copy is never changed
// once it is in use.
type config struct {
	set        turns.Settings
	given      given         // of the list of options that is read
	fencing    bool          // WithFencing; set.Fencing is what the mode leaves of it
	minHold    time.Duration // WithMinHold, likewise
	keepIfDone bool          // MinHold holds only after success
	linger     time.Duration // WithLinger, likewise as minHold
	failOpen   bool          // functions run unguarded while the store is silent
	onceToo    bool          // likewise those of Once
	observers  observers
	accepted   []string     // findings that only warn
	logger     *slog.Logger // nil: slog.Default() at the time of logging

	codec       Codec // of the results of Once
	resultLimit int   // of a result in bytes
	atMostOnce  bool  // Once marks the key before its function runs
}

func defaults() config {
	return config{
		set: turns.Settings{
			TTL:        10 * time.Second,
			MaxWait:    3 * time.Second,
			MaxWaiters: 1000,
			MaxHold:    60 * time.Second,
			Backoff:    turns.Backoff{Initial: 5 * time.Millisecond, Max: 250 * time.Millisecond},
			Name:       "guard",
		},
		codec:       jsonCodec{},
		resultLimit: defaultResultLimit,
	}
}

// with returns a copy of c with opts applied, or every mistake in them joined
// into one error.
func (c config) with(opts []Option) (config, error) {
	c.observers = slices.Clip(c.observers) // so that WithObserver copies
	c.given = given{}
	var errs []error
	for _, o := range opts {
		if o == nil {
			errs = append(errs, invalid("option is nil"))
			continue
		}
		errs = append(errs, o.apply(&c))
	}
	c.settle()
	errs = append(errs, c.given.check())
	claim := locker.Claim{TTL: c.set.TTL}
	if most := limits.Idle(claim.LongOffer()); c.given.linger && c.linger > most {
		errs = append(errs, invalid("Linger is %v, want at most %v with a TTL of %v", c.linger, most, c.set.TTL))
	}
	if c.set.NoRenewal && c.set.MinHold > c.set.TTL {
		errs = append(errs, invalid("MinHold is %v, longer than a key lasts WithoutRenewal: %v",
			c.set.MinHold, c.set.TTL))
	}
	return c, errors.Join(errs...)
}

// given says which options are in one list.
type given struct{ shared, permits, fencing, minHold, linger, noRenewal bool }

// check refuses options that have no meaning together.
func (g given) check() error {
	const lingers = ": such keys do not linger, so leave one of them out"
	for _, pair := range []struct {
		given             bool
		option, with, why string
	}{
		{g.linger && g.shared, "WithLinger", "WithShared", lingers},
		{g.linger && g.permits, "WithLinger", "WithPermits", lingers},
		{g.linger && g.minHold, "WithLinger", "WithMinHold", lingers},
		{g.linger && g.noRenewal, "WithLinger", "WithoutRenewal", lingers},
		{g.shared && g.permits, "WithShared", "WithPermits", ""},
		{g.shared && g.fencing, "WithShared", "WithFencing", ""},
		{g.shared && g.minHold, "WithShared", "WithMinHold", ""},
	} {
		if pair.given {
			return invalid("%s together with %s%s", pair.option, pair.with, pair.why)
		}
	}
	return nil
}

// settle sets what the mode leaves of other settings.
func (c *config) settle() {
	c.set.Fencing, c.set.MinHold = c.fencing, c.minHold
	if c.set.Limit == locker.NoLimit {
		c.set.Fencing, c.set.MinHold = false, 0
	}
	c.set.Linger = c.linger
	if c.set.Limit != 0 || c.set.MinHold > 0 || c.set.NoRenewal {
		c.set.Linger = 0
	}
}

// checkSupport refuses settings that l cannot serve. These are a TTL that its
// store cannot keep, a mode that it does not have, and names of findings that
// it does not have.
func (c *config) checkSupport(l locker.Locker) error {
	can := l.Capabilities()
	errs := []error{can.Limits.Check(c.set.TTL)}
	switch {
	case c.set.Limit == 0 || can.Shares:
	case c.set.Limit == locker.NoLimit:
		errs = append(errs, unsupported("this locker has no shared leases"))
	default:
		errs = append(errs, unsupported("this locker has no permits"))
	}
	if c.set.Linger != 0 && !can.Lingers {
		errs = append(errs, unsupported("WithLinger needs a store with messages: "+
			"with this locker a process does not hear at once that others want its keys"))
	}
	for _, name := range c.accepted {
		if known := can.Findings; known != nil && !slices.Contains(known, name) { // nil: the locker does not say
			errs = append(errs, invalid("WithAcceptedFindings: the locker has no finding %q, only %q", name, known))
		}
	}
	return errors.Join(errs...)
}

func (c *config) log() *slog.Logger {
	if c.logger != nil {
		return c.logger
	}
	return slog.Default()
}

// forever is a wait that ends with its ctx. Twice as much would overflow.
const forever = 100 * 365 * 24 * time.Hour

// Codec turns results into bytes and back, see [WithCodec]. It must be safe for
// concurrent use.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

const (
	minResultLimit     = 64
	defaultResultLimit = 64 << 10
)

package guard

import (
	"encoding/json"
	"errors"
	"fmt"
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

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

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
			errs = append(errs, fmt.Errorf("%w: option is nil", ErrInvalidOption))
			continue
		}
		errs = append(errs, o.apply(&c))
	}
	c.settle()
	errs = append(errs, c.given.check(), c.checkLinger())
	if c.set.NoRenewal && c.set.MinHold > c.set.TTL {
		errs = append(errs, fmt.Errorf("%w: MinHold is %v, longer than a key lasts WithoutRenewal: %v",
			ErrInvalidOption, c.set.MinHold, c.set.TTL))
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
			return fmt.Errorf("%w: %s together with %s%s", ErrInvalidOption, pair.option, pair.with, pair.why)
		}
	}
	return nil
}

// checkLinger refuses a time that the TTL does not allow.
func (c *config) checkLinger() error {
	claim := locker.Claim{TTL: c.set.TTL}
	if most := limits.Idle(claim.LongOffer()); c.given.linger && c.linger > most {
		return fmt.Errorf("%w: Linger is %v, want at most %v with a TTL of %v",
			ErrInvalidOption, c.linger, most, c.set.TTL)
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
	return errors.Join(can.Limits.Check(c.set.TTL), c.checkMode(can.Shares), c.checkLingers(can.Lingers),
		c.checkAccepted(can.Findings))
}

// checkMode refuses a mode that needs shares if the locker has none.
func (c *config) checkMode(shares bool) error {
	if c.set.Limit == 0 || shares {
		return nil
	}
	lacks := "permits"
	if c.set.Limit == locker.NoLimit {
		lacks = "shared leases"
	}
	return fmt.Errorf("%w: %w: this locker has no %s", ErrInvalidOption, errors.ErrUnsupported, lacks)
}

// checkLingers refuses WithLinger if no process can hear that others want its
// keys.
func (c *config) checkLingers(lingers bool) error {
	if lingers || c.set.Linger == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w: WithLinger needs a store with messages: "+
		"with this locker a process does not hear at once that others want its keys",
		ErrInvalidOption, errors.ErrUnsupported)
}

// checkAccepted refuses names that none of the known findings has. A locker
// may not say which it knows.
func (c *config) checkAccepted(known []string) error {
	if known == nil {
		return nil
	}
	var errs []error
	for _, name := range c.accepted {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("%w: WithAcceptedFindings: the locker has no finding %q, only %q",
				ErrInvalidOption, name, known))
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

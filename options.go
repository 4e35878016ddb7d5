package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"
)

// Option changes one setting, in [New] for a whole family or in [Guard.With] for a route.
type Option interface {
	apply(*config) error
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// config is what options set. A Guard's copy is never changed once it is in use.
type config struct {
	ttl        time.Duration
	maxWait    time.Duration
	maxWaiters int
	maxHold    time.Duration
	minHold    time.Duration
	keepIfDone bool // and only after success
	backoff    backoff
	name       string
	noRenewal  bool
	fencing    bool
	observers  []Observer
	accepted   []string     // findings that only warn
	logger     *slog.Logger // nil: slog.Default() at the time of logging
}

func defaults() config {
	return config{
		ttl:        10 * time.Second,
		maxWait:    3 * time.Second,
		maxWaiters: 1000,
		maxHold:    60 * time.Second,
		backoff:    backoff{first: 5 * time.Millisecond, most: 250 * time.Millisecond},
		name:       "guard",
	}
}

// with returns a copy of c with opts applied, or every mistake in them joined into one error.
func (c config) with(opts []Option) (config, error) {
	c.observers = slices.Clip(c.observers) // so that WithObserver copies
	var errs []error
	for _, o := range opts {
		if o == nil {
			errs = append(errs, fmt.Errorf("%w: option is nil", ErrInvalidOption))
			continue
		}
		errs = append(errs, o.apply(&c))
	}
	if c.noRenewal && c.minHold > c.ttl {
		errs = append(errs, fmt.Errorf("%w: MinHold is %v, longer than a key lasts WithoutRenewal: %v", ErrInvalidOption, c.minHold, c.ttl))
	}
	return c, errors.Join(errs...)
}

const (
	minTTL = 100 * time.Millisecond // below it, round trips and drift leave nothing to trust
	maxTTL = 24 * 24 * time.Hour    // above it, milliseconds overflow the 31 bits of some stores
)

// WithTTL sets how long a key outlives a holder that crashed; a live one renews it at a third of it. 100 ms to 24 days,
// in whole milliseconds. Default 10 s: after kill -9 a hot key answers "held" for up to that long.
func WithTTL(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < minTTL || d > maxTTL || d%time.Millisecond != 0 {
			return fmt.Errorf("%w: TTL is %v, want %v to %v in whole milliseconds", ErrInvalidOption, d, minTTL, maxTTL)
		}
		c.ttl = d
		return nil
	})
}

// checkDuration refuses a duration that is negative, or so short that a unit
// was forgotten: WithMaxWait(3) waits for 3 ns.
func checkDuration(setting string, d time.Duration) error {
	if d < 0 || d > 0 && d < time.Millisecond {
		return fmt.Errorf("%w: %s is %v, want 0 or at least 1ms: 3*time.Second, not 3", ErrInvalidOption, setting, d)
	}
	return nil
}

// WithMaxWait bounds how long a verb waits for its key, 1 ms at least. 0 makes one attempt. Default 3 s.
func WithMaxWait(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if err := checkDuration("MaxWait", d); err != nil {
			return err
		}
		c.maxWait = d
		return nil
	})
}

// WithMaxWaiters bounds how many calls of this process stand in line for one key. The call that asks the store for the key
// stands in front of the line and is not counted. A call that finds the line full is refused with [ErrQueueFull].
// 0 means no limit. Default 1,000.
func WithMaxWaiters(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 0 {
			return fmt.Errorf("%w: MaxWaiters is %d, want 0 or more", ErrInvalidOption, n)
		}
		c.maxWaiters = n
		return nil
	})
}

// WithMaxHold bounds one turn: past it the function's context ends with [ErrMaxHold] and the lease is renewed no more.
// It is the cap on a handler that hangs, not on a slow one. It is 1 ms at least. 0 means no limit. Default 60 s. At half
// of it a warning is logged.
//
// Give a batch of minutes the time that it may take at most. A route that streams is one turn as long as it is open: at
// MaxHold the context of an SSE or WebSocket handler ends, what has been sent stays sent, no error can be answered any
// more, and the client sees the stream end when the handler returns. Better lock around each message, by [Guard.Do], or
// set the limit for the longest connection that may keep others from the key.
func WithMaxHold(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if err := checkDuration("MaxHold", d); err != nil {
			return err
		}
		c.maxHold = d
		return nil
	})
}

// WithBackoff sets the pauses between tries while the locker is unavailable, or cannot queue: the n-th is random between 0
// and first*2^n, at most most (full jitter). A call that is queued in the store is handed the key there, and looks by
// itself only in case a message gets lost, after the half of most to the whole of it, but at least twice a second.
// first is at least 1 ms. Default 5 ms and 250 ms.
func WithBackoff(first, most time.Duration) Option {
	return optionFunc(func(c *config) error {
		if first < time.Millisecond || most < first {
			return fmt.Errorf("%w: backoff is %v to %v, want 1ms <= first <= most", ErrInvalidOption, first, most)
		}
		c.backoff = backoff{first: first, most: most}
		return nil
	})
}

// WithName sets the name of this guard, or of one route of it, in spans, metrics, logs and the holder's description:
// a few fixed words, never a key. It is no namespace: that is redislocker.WithPrefix. Default "guard".
func WithName(name string) Option {
	return optionFunc(func(c *config) error {
		if name == "" {
			return fmt.Errorf("%w: name is empty", ErrInvalidOption)
		}
		c.name = name
		return nil
	})
}

// WithoutRenewal lets a lease end at its TTL: the function's context ends with [ErrLeaseLost] shortly before it.
func WithoutRenewal() Option {
	return optionFunc(func(c *config) error { c.noRenewal = true; return nil })
}

// WithFencing fetches fencing tokens with the key, in the same round trip, instead of on the first call of
// [Lease.FencingToken]. Only so do tokens keep rising across a failover that lost the lock.
func WithFencing() Option {
	return optionFunc(func(c *config) error { c.fencing = true; return nil })
}

// WithObserver adds an observer to those already there. One that is there already stays there once, so a route of a guard
// with an observer, made by [Guard.With], may name it again.
func WithObserver(o Observer) Option {
	return optionFunc(func(c *config) error {
		if isNil(o) {
			return fmt.Errorf("%w: observer is nil", ErrInvalidOption)
		}
		if !slices.ContainsFunc(c.observers, func(there Observer) bool { return same(there, o) }) {
			c.observers = append(c.observers, o)
		}
		return nil
	})
}

// WithLogger sets where lost leases, outages, failed releases and functions that run on are logged, without keys. Default [slog.Default].
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) error {
		if l == nil {
			return fmt.Errorf("%w: logger is nil", ErrInvalidOption)
		}
		c.logger = l
		return nil
	})
}

// same reports whether a and b are the same observer. Some have types that == cannot compare.
func same(a, b Observer) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// isNil sees a nil pointer in an interface too.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

func (c *config) log() *slog.Logger {
	if c.logger != nil {
		return c.logger
	}
	return slog.Default()
}

package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// Option changes one setting, in [New] for a whole family or in [Guard.With]
// for a route.
type Option interface {
	apply(*config) error
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// config is what options set. A Guard's copy is never changed once it is in
// use.
type config struct {
	set        turns.Settings
	keepIfDone bool // MinHold holds only after success
	observers  observers
	accepted   []string     // findings that only warn
	logger     *slog.Logger // nil: slog.Default() at the time of logging
}

func defaults() config {
	return config{set: turns.Settings{
		TTL:        10 * time.Second,
		MaxWait:    3 * time.Second,
		MaxWaiters: 1000,
		MaxHold:    60 * time.Second,
		Backoff:    turns.Backoff{First: 5 * time.Millisecond, Max: 250 * time.Millisecond},
		Name:       "guard",
	}}
}

// with returns a copy of c with opts applied, or every mistake in them joined
// into one error.
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
	if c.set.NoRenewal && c.set.MinHold > c.set.TTL {
		errs = append(errs, fmt.Errorf("%w: MinHold is %v, longer than a key lasts WithoutRenewal: %v",
			ErrInvalidOption, c.set.MinHold, c.set.TTL))
	}
	return c, errors.Join(errs...)
}

// suits refuses what l cannot serve: a TTL that its store cannot keep, and
// names of findings that it does not have.
func (c *config) suits(l locker.Locker) error {
	return errors.Join(locker.LimitsOf(l).Check(c.set.TTL), c.checkAccepted(l))
}

// checkAccepted refuses names that no finding of l has.
func (c *config) checkAccepted(l locker.Locker) error {
	namer, ok := l.(locker.FindingNamer)
	if !ok || len(c.accepted) == 0 {
		return nil
	}
	var errs []error
	known := namer.FindingNames()
	for _, name := range c.accepted {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("%w: WithAccepted: the locker has no finding %q, only %q",
				ErrInvalidOption, name, known))
		}
	}
	return errors.Join(errs...)
}

const (
	minTTL = 100 * time.Millisecond // below it, round trips and drift leave nothing to trust
	maxTTL = 24 * 24 * time.Hour    // above it, milliseconds overflow the 31 bits of some stores
)

// WithTTL sets how long a key outlives a holder that crashed; a live one renews
// it at a third of it. 100 ms to 24 days, in whole milliseconds, unless the
// store keeps less, see locker.Limiter. Default 10 s: after kill -9 a hot key
// answers "held" for up to that long.
func WithTTL(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < minTTL || d > maxTTL || d%time.Millisecond != 0 {
			return fmt.Errorf("%w: TTL is %v, want %v to %v in whole milliseconds", ErrInvalidOption, d, minTTL, maxTTL)
		}
		c.set.TTL = d
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

// WithMaxWait bounds how long a verb waits for its key, 1 ms at least. 0 makes
// one attempt. Default 3 s.
func WithMaxWait(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if err := checkDuration("MaxWait", d); err != nil {
			return err
		}
		c.set.MaxWait = d
		return nil
	})
}

// WithMaxWaiters bounds how many calls of this process stand in line for one
// key. The call that asks the store for the key stands in front of the line and
// is not counted. A call that finds the line full is refused with
// [ErrQueueFull]. 0 means no limit. Default 1,000.
func WithMaxWaiters(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 0 {
			return fmt.Errorf("%w: MaxWaiters is %d, want 0 or more", ErrInvalidOption, n)
		}
		c.set.MaxWaiters = n
		return nil
	})
}

// WithMaxHold bounds one turn: past it the function's context ends with
// [ErrMaxHold] and the lease is renewed no more. It is the cap on a handler
// that hangs, not on a slow one. It is 1 ms at least. 0 means no limit. Default
// 60 s. At half of it a warning is logged.
//
// Give a batch of minutes the time that it may take at most. A route that
// streams is one turn as long as it is open: at MaxHold the context of an SSE
// or WebSocket handler ends, what has been sent stays sent, no error can be
// answered any more, and the client sees the stream end when the handler
// returns. Better lock around each message, by [Guard.Do], or set the limit for
// the longest connection that may keep others from the key.
func WithMaxHold(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if err := checkDuration("MaxHold", d); err != nil {
			return err
		}
		c.set.MaxHold = d
		return nil
	})
}

// KeepOn says after which results of the function [WithMinHold] keeps the key.
type KeepOn uint8

// OnSuccess keeps the key only after a function that returned nil, or on a
// route a response with a status below 400. After an error, a panic or the loss
// of the lease the key is free at once, so that the same work can be tried
// again. A lease from Acquire or TryAcquire has no result: its release counts
// as success.
const OnSuccess KeepOn = 1

// WithMinHold keeps the key taken until d after it was acquired, even if the
// function returns sooner, with whatever result, or with [OnSuccess] only after
// success. It is for jobs that instances start by clocks that differ, and for
// double clicks.
//
// Verbs return without waiting for that, and the function's context ends as
// always. Meanwhile every other call has to wait, in this process too, and the
// lease is renewed as needed, so d may be longer than the TTL. A call that runs
// inside a lease on the same key goes by the setting of the outer one. d is at
// least 1 ms; 0 is none, the default.
//
// [Guard.Close] does not wait for it either. Then, after a crash, and while the
// store cannot be reached, the key is left to its TTL, which may be sooner or
// later: choose a TTL of at least d for a process that ends with its job.
func WithMinHold(d time.Duration, on ...KeepOn) Option {
	return optionFunc(func(c *config) error {
		if err := checkDuration("MinHold", d); err != nil {
			return err
		}
		for _, o := range on {
			if o != OnSuccess {
				return fmt.Errorf("%w: MinHold with KeepOn %d, want OnSuccess", ErrInvalidOption, o)
			}
		}
		c.set.MinHold, c.keepIfDone = d, len(on) > 0
		return nil
	})
}

// WithBackoff sets the pauses between tries while the locker is unavailable, or
// cannot queue: the n-th is random between 0 and first*2^n, at most most (full
// jitter). A call that is queued in the store is handed the key there, and
// looks by itself only in case a message gets lost, after the half of most to
// the whole of it, but at least twice a second. While a guard waits for n keys,
// and n is 300 or more, most is n/1000 s there if that is longer, but 10 s at
// most; unless messages are known not to come. first is at least 1 ms. Default
// 5 ms and 250 ms.
func WithBackoff(first, most time.Duration) Option {
	return optionFunc(func(c *config) error {
		if first < time.Millisecond || most < first {
			return fmt.Errorf("%w: backoff is %v to %v, want 1ms <= first <= most", ErrInvalidOption, first, most)
		}
		c.set.Backoff = turns.Backoff{First: first, Max: most}
		return nil
	})
}

// WithName sets the name of this guard, or of one route of it, in spans,
// metrics, logs and the holder's description: a few fixed words, never a key.
// It is no namespace: that is redislocker.WithPrefix. Default "guard".
func WithName(name string) Option {
	return optionFunc(func(c *config) error {
		if name == "" {
			return fmt.Errorf("%w: name is empty", ErrInvalidOption)
		}
		c.set.Name = name
		return nil
	})
}

// WithoutRenewal lets a lease end at its TTL: the function's context ends with
// [ErrLeaseLost] shortly before it.
func WithoutRenewal() Option {
	return optionFunc(func(c *config) error { c.set.NoRenewal = true; return nil })
}

// WithFencing fetches fencing tokens with the key, in the same round trip,
// instead of on the first call of [Lease.FencingToken]. Only so do tokens keep
// rising across a failover that lost the lock.
func WithFencing() Option {
	return optionFunc(func(c *config) error { c.set.Fencing = true; return nil })
}

// WithObserver adds an observer to those already there. One that is there
// already stays there once, so a route of a guard with an observer, made by
// [Guard.With], may name it again.
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

// WithLogger sets where lost leases, outages, failed releases and functions
// that run on are logged, without keys. Default [slog.Default].
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) error {
		if l == nil {
			return fmt.Errorf("%w: logger is nil", ErrInvalidOption)
		}
		c.logger = l
		return nil
	})
}

// same reports whether a and b are the same observer. Some have types that ==
// cannot compare.
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

package guard

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// Locker is a store that leases live in. It is redislocker, memlocker or one of
// your own, see package locker.
type Locker = locker.Locker

// Guard acquires keys for functions. Make one per process with [New] and derive
// one per route with [Guard.With]. Both share the keys that they hold and the
// calls that wait. A nil *Guard stands for the default one, which is looked up
// at each call, see [SetDefault]. The methods of a Guard are safe for
// concurrent use.
type Guard struct {
	config
	family *family    // nil in a Guard derived from a nil one
	late   [][]Option // lists of options for the default guard, if family is nil
}

// A family is the state shared by a Guard and its copies.
type family struct {
	locker locker.Locker
	engine *turns.Engine
	hints  hints
}

// Idle implements [IdleKeys].
func (f *family) Idle() (keys map[string]int, open bool) {
	if f.engine.IsClosing() {
		return nil, false
	}
	return f.engine.Idle(), true
}

// hints records the hints that the guards of a family have given.
type hints struct {
	names sync.Map // names that New and With have given its guards
	given sync.Map // by hint
}

type hint struct{ about, name string }

// New makes a Guard that keeps its leases in l. It takes ownership of l. A
// locker serves one New, and [Guard.Close] closes it. New sends nothing. It
// returns ErrInvalidOption for a bad option or a bad setting of the locker.
func New(l Locker, opts ...Option) (*Guard, error) {
	c, err := defaults().with(opts)
	if err != nil {
		return nil, err
	}
	if lockerkit.IsNil(l) {
		return nil, invalid("locker is nil")
	}
	if err := c.checkSupport(l); err != nil {
		return nil, err
	}
	e, err := turns.Open(l)
	if err != nil {
		return nil, err
	}
	g := &Guard{config: c, family: &family{locker: l, engine: e}}
	g.introduce()
	return g, nil
}

// introduce tells the name of a new guard to the family and the observers.
func (g *Guard) introduce() {
	g.family.hints.names.Store(g.set.Name, nil)
	for _, o := range g.observers {
		if o, ok := o.(NameObserver); ok {
			o.GuardNamed(g.set.Name)
		}
		if o, ok := o.(IdleObserver); ok {
			o.ObserveIdle(g.family)
		}
	}
}

// With returns a copy of g with other settings, for one route or one kind of
// work. It shares keys, waiters and the locker with g. Call it at start-up,
// because it panics if an option is invalid.
func (g *Guard) With(opts ...Option) *Guard {
	base, late := defaults(), [][]Option{opts}
	if g != nil {
		base, late = g.config, append(slices.Clip(g.late), opts)
	}
	c, err := base.with(opts)
	if err != nil {
		panic(err)
	}
	if g == nil || g.family == nil {
		return &Guard{config: c, late: late}
	}
	if err := c.checkSupport(g.family.locker); err != nil {
		panic(err)
	}
	derived := &Guard{config: c, family: g.family}
	derived.introduce()
	return derived
}

// resolve returns g, or the guard that g stands for. That is the default guard,
// with g's own options if it has any.
func (g *Guard) resolve() (*Guard, error) {
	if g != nil && g.family != nil {
		return g, nil
	}
	d := Default()
	if d == nil {
		return nil, ErrNoDefault
	}
	if g == nil {
		return d, nil
	}
	c := d.config
	for _, opts := range g.late {
		var err error
		if c, err = c.with(opts); err != nil {
			return nil, err
		}
	}
	if err := c.checkSupport(d.family.locker); err != nil {
		return nil, err
	}
	return &Guard{config: c, family: d.family}, nil
}

// toRun is resolve for a verb whose function must not be nil.
func (g *Guard) toRun(isNil bool) (*Guard, error) {
	if isNil {
		return nil, errNilFunc
	}
	return g.resolve()
}

// closed returns g without fail-open, because Acquire must never return a lease
// that holds nothing.
func (g *Guard) closed() *Guard {
	if !g.failOpen {
		return g
	}
	c := g.config
	c.failOpen = false
	return &Guard{config: c, family: g.family}
}

// once is the patience of a verb that makes one attempt.
func once() turns.Patience {
	now := time.Now()
	return turns.Patience{Start: now, Until: now, Once: true}
}

// patience is how long a verb waits from now.
func (c *config) patience() turns.Patience {
	now := time.Now()
	return turns.Patience{Start: now, Until: now.Add(c.set.MaxWait), Once: c.set.MaxWait == 0}
}

// Close ends the Guard and all guards that were derived from it. New calls and
// waiting calls get ErrClosed at once. Close waits for the functions that run,
// whose re-entrant calls still work. It waits for renewals and observers too,
// and then closes the locker.
//
// If ctx ends first, Close returns its error. The contexts of those functions
// then end with a cause that Is ErrClosed and ErrLeaseLost. Their keys are left
// to the TTL, and are never released under a running function. Requests that
// release idle keys may go on after ctx has ended, for a second at most. A
// further call of Close waits again. With a nil ctx Close does nothing and
// returns ErrInvalidOption.
func (g *Guard) Close(ctx context.Context) error {
	g, err := g.resolve()
	if err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext
	}
	return g.family.engine.Close(ctx)
}

// defaultGuard is the guard that a nil *Guard stands for.
var defaultGuard atomic.Pointer[Guard]

// SetDefault makes g the guard that a nil *Guard and the package's own [Do]
// use. Call it once, at start-up. SetDefault(nil) removes the default, for
// example at the end of a test. SetDefault panics if g was derived from a nil
// Guard, because such a guard stands for the default itself.
//
// If it replaces another open guard, it warns in g's log. The other guard stays
// open. Calls before and after the change do not wait for each other, unless
// both guards use one store.
func SetDefault(g *Guard) {
	if g != nil && g.family == nil {
		panic("guard: SetDefault needs a Guard that New made")
	}
	before := defaultGuard.Swap(g)
	if g != nil && before != nil && before.family != g.family && !before.family.engine.IsClosing() {
		g.log().Warn("guard: SetDefault replaced another default guard, which is still open: call it once, or with "+
			"nil in between",
			"guard", g.set.Name, "before", before.set.Name)
	}
}

// Default returns the default guard, or nil before [SetDefault].
func Default() *Guard { return defaultGuard.Load() }

// Adapters ask the guard of a route for the settings below, so that their log
// lines read like the guard's.

// Name returns the name that [WithName] has set. A nil Guard, or one derived
// from it, has the name of the default guard, or "guard" before [SetDefault].
// Name does not block and is safe for concurrent use.
func (g *Guard) Name() string { return g.settings().set.Name }

// Logger returns the logger that [WithLogger] has set, or [slog.Default]. A nil
// Guard stands for the default one here, too. Logger does not block and is safe
// for concurrent use.
func (g *Guard) Logger() *slog.Logger { return g.settings().log() }

// MaxWait returns how long a call may wait, as [WithMaxWait] has set it. A nil
// Guard stands for the default one here, too. It does not block, and is safe
// for concurrent use.
func (g *Guard) MaxWait() time.Duration { return g.settings().set.MaxWait }

// MaxHold returns how long a turn may last, as [WithMaxHold] has set it. 0
// means no limit. A nil Guard stands for the default one here, too. It does not
// block, and is safe for concurrent use.
func (g *Guard) MaxHold() time.Duration { return g.settings().set.MaxHold }

// MinHold returns how long a key stays taken at least, as [WithMinHold] has set
// it. 0 means no longer than its turn. A nil Guard stands for the default one
// here, too. It does not block, and is safe for concurrent use.
func (g *Guard) MinHold() time.Duration { return g.settings().set.MinHold }

// ResultLimit returns how many bytes [Once] keeps for a key at most, as
// [WithResultLimit] has set it. A nil Guard stands for the default one here,
// too. It does not block, and is safe for concurrent use.
func (g *Guard) ResultLimit() int { return g.settings().resultLimit }

// settings returns g's settings. Before there is a default guard it returns
// those that are known.
func (g *Guard) settings() *config {
	if known, err := g.resolve(); err == nil {
		return &known.config
	}
	if g != nil {
		return &g.config
	}
	c := defaults()
	return &c
}

package guard

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

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

// isClosing reports whether Close was called.
func (f *family) isClosing() bool {
	select {
	case <-f.engine.Closing():
		return true
	default:
		return false
	}
}

// hints records the hints that the guards of a family have given.
type hints struct {
	names sync.Map // names that New and With have given its guards
	given sync.Map // by hint
}

type hint struct{ about, name string }

// first reports whether the guard of that name has not given a hint before.
func (h *hints) first(about, name string) bool {
	_, before := h.given.LoadOrStore(hint{about, name}, nil)
	return !before
}

// Locker is a store that leases live in. It is redislocker, memlocker or one of
// your own, see package locker.
type Locker = locker.Locker

// New makes a Guard that keeps its leases in l. It takes ownership of l. A
// locker serves one New, and [Guard.Close] closes it. New sends nothing. It
// returns ErrInvalidOption for a bad option or a bad setting of the locker.
func New(l Locker, opts ...Option) (*Guard, error) {
	c, err := defaults().with(opts)
	if err != nil {
		return nil, err
	}
	if lockerkit.IsNil(l) {
		return nil, fmt.Errorf("%w: locker is nil", ErrInvalidOption)
	}
	if err := c.suits(l); err != nil {
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
	g.observers.named(g.set.Name, g.family)
}

// Idle implements [IdleKeys].
func (f *family) Idle() (keys map[string]int, open bool) {
	select {
	case <-f.engine.Closing():
		return nil, false
	default:
		return f.engine.Idle(), true
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
	if err := c.suits(g.family.locker); err != nil {
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
	if err := c.suits(d.family.locker); err != nil {
		return nil, err
	}
	return &Guard{config: c, family: d.family}, nil
}

// Do runs fn while it holds key. It is the verb for nearly every caller.
//
// Do waits for key until MaxWait is over or ctx ends. Then it returns an error
// without running fn. The error is ErrNotAcquired (*[HeldError] says more),
// ErrQueueFull, ErrUnavailable, ErrClosed, ErrInvalidKey or ErrNoDefault.
//
// fn's context ends with cause ErrLeaseLost before the key can expire in the
// store, or with ErrMaxHold. Do returns fn's error unchanged. If the lease was
// lost while fn ran, the error Is both. A panic of fn passes through after
// release.
//
// fn may itself return such a refusal, for a key that it takes. Do marks that
// error without a change of its text, or of what errors.Is and errors.As find
// in it. [Ran] tells it from a refusal of Do itself.
func (g *Guard) Do(ctx context.Context, key string, fn func(ctx context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	g, err := g.resolve()
	if err != nil {
		return err
	}
	l, err := g.acquire(ctx, key, g.patience(), with{})
	if err != nil {
		return err
	}
	return l.run(ctx, fn)
}

var (
	errNilFunc    = fmt.Errorf("%w: the function to run is nil", ErrInvalidOption)
	errNilKeyFunc = fmt.Errorf("%w: the key function is nil", ErrInvalidOption)
	errNilContext = fmt.Errorf("%w: the ctx is nil", ErrInvalidOption)
)

// Acquire waits for key as [Guard.Do] does, with the same errors. It returns a
// lease for a critical section that does not fit a function.
//
// The caller must release the lease. Otherwise its key is renewed until
// MaxHold. If the lease runs inside another one on the same key, the release of
// the outer lease waits for it.
func (g *Guard) Acquire(ctx context.Context, key string) (*Lease, error) {
	g, err := g.resolve()
	if err != nil {
		return nil, err
	}
	return g.closed().acquire(ctx, key, g.patience(), with{})
}

// TryAcquire makes one attempt, for callers that skip instead of wait. It
// blocks for that attempt, at most for the try limit. It never overtakes calls
// of this process that wait already. Errors are those of [Guard.Acquire].
func (g *Guard) TryAcquire(ctx context.Context, key string) (*Lease, error) {
	g, err := g.resolve()
	if err != nil {
		return nil, err
	}
	return g.closed().acquire(ctx, key, once(), with{})
}

// once is the patience of a verb that makes one attempt.
func once() turns.Patience {
	now := time.Now()
	return turns.Patience{Start: now, Until: now, Once: true}
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
	if g != nil && before != nil && before.family != g.family && !before.family.isClosing() {
		g.log().Warn("guard: SetDefault replaced another default guard, which is still open: call it once, or with "+
			"nil in between",
			"guard", g.set.Name, "before", before.set.Name)
	}
}

// Default returns the default guard, or nil before [SetDefault].
func Default() *Guard { return defaultGuard.Load() }

// Do is [Guard.Do] on the default guard. Before [SetDefault] it returns
// ErrNoDefault, so fn never runs unguarded.
func Do(ctx context.Context, key string, fn func(ctx context.Context) error) error {
	return Default().Do(ctx, key, fn)
}

// Call is [Guard.Do] for a function with a result. It returns the result beside
// the error. A nil g is the default guard. From Go 1.27 on it is a method too.
func Call[T any](ctx context.Context, g *Guard, key string, fn func(context.Context) (T, error)) (T, error) {
	var result T
	if fn == nil {
		return result, errNilFunc
	}
	err := g.Do(ctx, key, func(ctx context.Context) (err error) {
		result, err = fn(ctx)
		return err
	})
	return result, err
}

// Wrap returns fn guarded by the key of its argument. Calls with the same key
// run one at a time. A nil g is the default guard. The function returns fn's
// result beside the error, which is one of [Guard.Do].
func Wrap[A, R any](g *Guard, key func(A) string,
	fn func(context.Context, A) (R, error),
) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (R, error) {
		var none R
		if key == nil {
			return none, errNilKeyFunc
		}
		if fn == nil {
			return none, errNilFunc
		}
		return Call(ctx, g, key(arg), func(ctx context.Context) (R, error) { return fn(ctx, arg) })
	}
}

package guard

import (
	"context"
	"sync/atomic"
)

// defaultGuard is what a nil *Guard stands for.
var defaultGuard atomic.Pointer[Guard]

// SetDefault makes g the guard that a nil *Guard and the package's own [Do] use. Call it at start-up. nil takes the
// default away. It panics if g was derived from a nil Guard, which stands for the default itself.
func SetDefault(g *Guard) {
	if g != nil && g.family == nil {
		panic("guard: SetDefault needs a Guard that New made")
	}
	defaultGuard.Store(g)
}

// Default returns the default guard, or nil before [SetDefault].
func Default() *Guard { return defaultGuard.Load() }

// Do is [Guard.Do] on the default guard. Before [SetDefault] it returns ErrNoDefault: fn never runs unguarded.
func Do(ctx context.Context, key string, fn func(ctx context.Context) error) error {
	return Default().Do(ctx, key, fn)
}

// Call is [Guard.Do] for a function with a result, which it returns beside the error. A nil g is the default guard.
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

// Wrap returns fn guarded by the key of its argument: calls with the same key run one at a time. A nil g is the default
// guard. The function returns fn's result beside the error, which is one of [Guard.Do].
func Wrap[A, R any](g *Guard, key func(A) string, fn func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (R, error) {
		if key == nil || fn == nil {
			var none R
			return none, errNilFunc
		}
		return Call(ctx, g, key(arg), func(ctx context.Context) (R, error) { return fn(ctx, arg) })
	}
}

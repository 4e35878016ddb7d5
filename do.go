package guard

import "context"

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
	g, err := g.toRun(fn == nil)
	if err != nil {
		return err
	}
	l, err := g.acquire(ctx, key, g.patience(), nil)
	if err != nil {
		return err
	}
	return l.run(ctx, fn)
}

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
	return g.closed().acquire(ctx, key, g.patience(), nil)
}

// TryAcquire makes one attempt, for callers that skip instead of wait. It
// blocks for that attempt, at most for the try limit. It never overtakes calls
// of this process that wait already. Errors are those of [Guard.Acquire].
func (g *Guard) TryAcquire(ctx context.Context, key string) (*Lease, error) {
	g, err := g.resolve()
	if err != nil {
		return nil, err
	}
	return g.closed().acquire(ctx, key, once(), nil)
}

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

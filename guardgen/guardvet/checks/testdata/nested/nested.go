package nested

import (
	"context"

	"github.com/go-lockguard/guard"
)

type account struct{ id int }

func move(context.Context) error { return nil }

func reported(ctx context.Context, g *guard.Guard, from, to string, a, b account) {
	_ = g.Do(ctx, guard.Key("account", from), func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("account", to), move) // want `guard.Key\("account", from\) and guard.Key\("account", to\) may be taken in the other order elsewhere`
	})
	_ = g.Do(ctx, guard.Key("account", a.id), func(ctx context.Context) error {
		key := guard.Key("account", b.id)
		_ = move(ctx)
		_, err := guard.Call(ctx, g, key, func(context.Context) (int, error) { return 1, nil }) // want `take them by one DoAll`
		return err
	})
}

func fine(ctx context.Context, g *guard.Guard, from, to string, a account) {
	_ = g.DoAll(ctx, []string{guard.Key("account", from), guard.Key("account", to)}, move)
	_ = g.Do(ctx, guard.Key("order", from), func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("stock", to), move) // the same order everywhere, for all we know
	})
	_ = g.Do(ctx, guard.Key("account", from), func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("account", from), move) // inside
	})
	_ = g.Do(ctx, guard.Key("account", from), func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("account", "bank"), move) // always last
	})
	_ = g.Do(ctx, guard.Key("user", from), func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("user", a.id), move) // other things
	})
	_ = g.Do(ctx, guard.Key("account", from), move)
	_ = g.Do(ctx, guard.Key("account", to), move)
}

func sorted(ctx context.Context, g *guard.Guard, from, to string) error {
	if from > to {
		from, to = to, from
	}
	return g.Do(ctx, guard.Key("account", from), func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("account", to), move)
	})
}

func acquired(ctx context.Context, g *guard.Guard, from, to string) error {
	a, err := g.Acquire(ctx, guard.Key("account", from))
	if err != nil {
		return err
	}
	defer a.Release(ctx)
	b, err := g.Acquire(a.Context(), guard.Key("account", to)) // want `guard.Key\("account", from\) and guard.Key\("account", to\) may be taken in the other order elsewhere`
	if err != nil {
		return err
	}
	defer b.Release(ctx)
	return move(b.Context())
}

func mixed(ctx context.Context, g *guard.Guard, from, to string) error {
	a, err := g.TryAcquire(ctx, guard.Key("account", from))
	if err != nil {
		return err
	}
	defer a.Release(ctx)
	return g.Do(a.Context(), guard.Key("account", to), move) // want `take them by one DoAll`
}

func fineAcquired(ctx context.Context, g *guard.Guard, from, to string) error {
	a, err := g.Acquire(ctx, guard.Key("account", from))
	if err != nil {
		return g.Do(ctx, guard.Key("account", to), move) // not held
	}
	_ = move(a.Context())
	b, err := g.TryAcquire(a.Context(), guard.Key("account", to)) // does not wait
	if err == nil {
		_ = b.Release(ctx)
	}
	_ = a.Release(ctx)
	return g.Do(ctx, guard.Key("account", to), move) // one after the other
}

func ship(ctx context.Context, g *guard.Guard, order, sku string) error {
	return g.Do(ctx, guard.Key("ship", order), func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("shelf", sku), move) // want `shelf:\* is taken under ship:\* here, and the other way round at nested.go:\d+, so both may wait in vain`
	})
}

func restock(ctx context.Context, g *guard.Guard, order, sku string) error {
	shelf, err := g.Acquire(ctx, guard.Key("shelf", sku))
	if err != nil {
		return err
	}
	defer shelf.Release(ctx)
	_, err = guard.Call(shelf.Context(), g, guard.Key("ship", order), func(ctx context.Context) (int, error) { // want `ship:\* is taken under shelf:\* here`
		return 0, move(ctx)
	})
	return err
}

func gated(ctx context.Context, g *guard.Guard, a, b string) error {
	_ = g.Do(ctx, "gate", func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("left", a), func(ctx context.Context) error {
			return g.Do(ctx, guard.Key("right", b), move)
		})
	})
	return g.Do(ctx, "gate", func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("right", b), func(ctx context.Context) error {
			return g.Do(ctx, guard.Key("left", a), move)
		})
	})
}

func tried(ctx context.Context, g *guard.Guard, a, b string) error {
	_ = g.Do(ctx, guard.Key("up", a), func(ctx context.Context) error {
		_, err := g.TryDo(ctx, guard.Key("down", b), move) // does not wait
		return err
	})
	return g.Do(ctx, guard.Key("down", b), func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("up", a), move)
	})
}

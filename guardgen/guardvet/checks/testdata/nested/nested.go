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

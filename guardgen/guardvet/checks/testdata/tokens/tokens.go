package tokens

import (
	"context"

	"github.com/go-lockguard/guard"
)

func use(uint64, error) error { return nil }

func reported(ctx context.Context, g *guard.Guard, a, b string) {
	_ = g.DoAll(ctx, []string{guard.Key("a", a), guard.Key("b", b)}, func(ctx context.Context) error {
		return use(guard.FencingToken(ctx)) // want `there are several keys here, each with a token of its own: ask the lease that guard.LeaseOf returns`
	})
	keys := []string{"a", "b"}
	_ = g.DoAll(ctx, keys, func(lease context.Context) error {
		return use(guard.FencingToken(lease)) // want `there are several keys here`
	})
}

func fine(ctx context.Context, g *guard.Guard, keys []string) {
	_ = g.DoAll(ctx, []string{"a", "b"}, func(ctx context.Context) error {
		lease, _ := guard.LeaseOf(ctx, "a")
		return use(lease.FencingToken(ctx))
	})
	_ = g.DoAll(ctx, []string{"a", "b"}, func(ctx context.Context) error {
		return g.Do(ctx, "c", func(ctx context.Context) error { return use(guard.FencingToken(ctx)) })
	})
	_ = g.DoAll(ctx, []string{"a"}, func(ctx context.Context) error { return use(guard.FencingToken(ctx)) })
	_ = g.DoAll(ctx, keys, func(ctx context.Context) error { return use(guard.FencingToken(ctx)) })
	_ = g.Do(ctx, "a", func(ctx context.Context) error { return use(guard.FencingToken(ctx)) })
}

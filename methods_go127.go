//go:build go1.27

package guard

import (
	"context"
	"time"
)

// Call is the function [Call] as a method, from Go 1.27 on.
func (g *Guard) Call[T any](ctx context.Context, key string, fn func(ctx context.Context) (T, error)) (T, error) {
	return Call(ctx, g, key, fn)
}

// Once is the function [Once] as a method, from Go 1.27 on.
func (g *Guard) Once[T any](
	ctx context.Context, key string, ttl time.Duration, fn func(ctx context.Context) (T, error),
) (T, error) {
	return Once(ctx, g, key, ttl, fn)
}

package goroutines

import (
	"context"
	"sync"

	"github.com/go-lockguard/guard"
)

func work(context.Context) error { return nil }

func mail(string) {}

func reported(ctx context.Context, g *guard.Guard) {
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		go work(ctx) // want `nobody waits for this goroutine: its context ends, and the key is free, when the function returns`
		return nil
	})
	_, _ = g.TryDo(ctx, "a", func(lease context.Context) error {
		go func() { // want `nobody waits for this goroutine`
			_ = work(lease)
		}()
		return work(lease)
	})
}

func fine(ctx context.Context, g *guard.Guard) {
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		go mail("done") // may outlive the lease
		return work(ctx)
	})
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		var all sync.WaitGroup
		all.Add(1)
		go func() { defer all.Done(); _ = work(ctx) }()
		all.Wait()
		return nil
	})
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		done := make(chan error)
		go func() { done <- work(ctx) }()
		return <-done
	})
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		results := make(chan error)
		go func() { defer close(results); results <- work(ctx) }()
		for err := range results {
			_ = err
		}
		return nil
	})
	go work(ctx)
}

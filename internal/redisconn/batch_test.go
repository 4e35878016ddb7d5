package redisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsWhoseCallersHaveLeftAreNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Int64
		start := time.Now()
		b := newBatcher(func(ctx context.Context, cmds []Command) {
			if time.Since(start) > 600*time.Millisecond {
				late.Add(int64(len(cmds)))
			}
			<-ctx.Done() // a server that hangs
		})
		for range 10_000 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				_ = b.send(ctx, []Command{NewCommand(ctx)})
			}()
		}
		time.Sleep(time.Minute)
		if n := late.Load(); n > 0 {
			t.Errorf("%d requests were sent after their callers had left", n)
		}
		b.close()
	})
}

// A bubble must not use objects of another bubble. A shared pool would allow a
// program's tests only one bubble.
func TestRequestsOfOneBubbleAreNotUsedInAnother(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			b := newBatcher(func(context.Context, []Command) { time.Sleep(time.Millisecond) })
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if err := b.send(t.Context(), []Command{NewCommand(t.Context())}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			b.close()
		})
	}
}

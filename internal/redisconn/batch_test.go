package redisconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsWhoseCallersHaveLeftAreNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var late, sent, unsent atomic.Int64
		start := time.Now()
		b := newBatcher(func(ctx context.Context, cmds []Command) {
			sent.Add(int64(len(cmds)))
			if time.Since(start) > 600*time.Millisecond {
				late.Add(int64(len(cmds)))
			}
			<-ctx.Done() // a server that hangs
		}, far)
		for range 10_000 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				if err := b.send(ctx, []Command{NewCommand(ctx)}); errors.Is(err, ErrUnsent) {
					unsent.Add(1)
				}
			}()
		}
		time.Sleep(time.Minute)
		if s, u := sent.Load(), unsent.Load(); s == 0 || s+u != 10_000 {
			t.Errorf("%d of 10,000 requests were sent, and %d are said not to be", s, u)
		}
		if n := late.Load(); n > 0 {
			t.Errorf("%d requests were sent after their callers had left", n)
		}
		b.close()
	})
}

// Each request has 500 ms. The server takes 100 ms for a batch, so some of 10,000
// requests wait in the queue for too long.
func TestARequestThatIsSentHasTimeForItsAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		b := newBatcher(func(_ context.Context, cmds []Command) {
			sent.Add(int64(len(cmds)))
			time.Sleep(100 * time.Millisecond)
		}, far)
		var answered, dropped atomic.Int64
		for range 10_000 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				switch err := b.send(ctx, []Command{NewCommand(ctx)}); {
				case err == nil:
					answered.Add(1)
				case errors.Is(err, ErrUnsent):
					dropped.Add(1)
				default:
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
		if sent.Load() != answered.Load() || sent.Load()+dropped.Load() != 10_000 {
			t.Errorf("%d of 10,000 were sent, %d answered, %d dropped", sent.Load(), answered.Load(), dropped.Load())
		}
		if least := int64(2 * 2 * batchCommands); answered.Load() < least {
			t.Errorf("%d were answered, want %d at least", answered.Load(), least)
		}
		b.close()
	})
}

// A bubble must not use objects of another bubble. A shared pool would allow a
// program's tests only one bubble.
func TestRequestsOfOneBubbleAreNotUsedInAnother(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			b := newBatcher(func(context.Context, []Command) { time.Sleep(time.Millisecond) }, far)
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

func far() bool { return false }

// A near server gets small batches, so that it has work while the next is made.
// To a server far away, one batch takes as many as may be.
func TestABatchToANearServerIsSmall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		trip time.Duration // 0: not known
		want int
	}{{0, batchCommands}, {200 * time.Microsecond, nearCommands}, {2 * time.Millisecond, batchCommands}} {
		synctest.Test(t, func(t *testing.T) {
			var trip Trip
			if tt.trip > 0 {
				trip.note(tt.trip)
			}
			var mu sync.Mutex // guards largest
			largest := 0
			b := newBatcher(func(_ context.Context, cmds []Command) {
				mu.Lock()
				largest = max(largest, len(cmds))
				mu.Unlock()
				time.Sleep(time.Millisecond)
			}, trip.near)
			var all sync.WaitGroup
			for range 5 * batchCommands {
				all.Go(func() {
					if err := b.send(t.Context(), []Command{NewCommand(t.Context())}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			b.close()
			if largest != tt.want {
				t.Errorf("trips of %v: the largest batch had %d commands, want %d", tt.trip, largest, tt.want)
			}
		})
	}
}

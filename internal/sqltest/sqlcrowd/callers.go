package sqlcrowd

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Exclude has callers of the old code and of the new take turns on a key, as in
// the first deploy of docs/migrating.md. Each passes on a function that must be
// alone.
func Exclude(t *testing.T, ways ...func(ctx context.Context, deduct func(context.Context, string) error) error) {
	t.Helper()
	var inside, sections atomic.Int64
	deduct := func(context.Context, string) error {
		if inside.Add(1) > 1 {
			t.Error("two are in the section")
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
		sections.Add(1)
		return nil
	}
	const callers, each = 3, 10
	var all sync.WaitGroup
	for _, way := range ways {
		for range callers {
			all.Go(func() {
				for range each {
					if err := way(t.Context(), deduct); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if n := sections.Load(); n != int64(len(ways)*callers*each) {
		t.Errorf("%d sections, want %d", n, len(ways)*callers*each)
	}
}

// AtOnce calls do on several connections at once, as instances that start
// together do.
func AtOnce(t *testing.T, newConn func() (do func() error)) {
	t.Helper()
	const instances = 6
	var all sync.WaitGroup
	ready := make(chan struct{})
	for range instances {
		do := newConn()
		all.Go(func() {
			<-ready
			if err := do(); err != nil {
				t.Error(err)
			}
		})
	}
	close(ready)
	all.Wait()
}

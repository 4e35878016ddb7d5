package postgreslocker_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// Migrate of another release replaces a text under the same name, while
// processes of this one use it.
func TestTheTextOfAVersionDoesNotChange(t *testing.T) {
	_, functions, _ := strings.Cut(postgreslocker.New(pool(t)).Schema(), "CREATE OR REPLACE")
	const want = "5747e0bb604746d9"
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(functions)))[:16]; got != want {
		t.Errorf("the functions have the sum %s, want %s: after a release, a new text needs a new version", got, want)
	}
}

func TestTwoVersionsExcludeEachOther(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	if err := a.UseVersion(tableOf(b), "0"); err != nil {
		t.Fatal(err)
	}
	if err := a.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var inside, last atomic.Int64
	var all sync.WaitGroup
	for _, l := range []*postgreslocker.Locker{a, b} {
		g, err := guard.New(l, guard.WithFencing(), guard.WithMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close(context.WithoutCancel(t.Context())) }()
		for range 4 {
			all.Go(func() {
				for range 50 {
					if err := g.Do(t.Context(), "k", func(ctx context.Context) error {
						if inside.Add(1) > 1 {
							t.Error("two sections run at once")
						}
						defer inside.Add(-1)
						token, err := guard.FencingToken(ctx)
						if before := last.Swap(int64(token)); err == nil && int64(token) <= before {
							t.Errorf("token %d after %d", token, before)
						}
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
}

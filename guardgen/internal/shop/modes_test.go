package shop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// crowd implements Docs. Its calls stay until gate is closed.
type crowd struct {
	in   chan string // the name of each call that came in
	gate chan struct{}
}

func (c crowd) stay(name string) error {
	c.in <- name
	<-c.gate
	return nil
}

func (c crowd) Read(context.Context, string) error   { return c.stay("Read") }
func (c crowd) Write(context.Context, string) error  { return c.stay("Write") }
func (c crowd) Export(context.Context, string) error { return c.stay("Export") }

func TestTheModeOfADirectiveSaysHowManyRunAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		call func(ctx context.Context, d Docs) error
		want int // calls of five that come in
	}{
		"no mode":   {func(ctx context.Context, d Docs) error { return d.Write(ctx, "a") }, 1},
		"shared":    {func(ctx context.Context, d Docs) error { return d.Read(ctx, "a") }, 5},
		"permits=3": {func(ctx context.Context, d Docs) error { return d.Export(ctx, "a") }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inside := crowd{in: make(chan string, 5), gate: make(chan struct{})}
				docs := GuardDocs(newGuard(t), inside)
				ended := make(chan error, 5)
				for range 5 {
					go func() { ended <- c.call(t.Context(), docs) }()
				}
				synctest.Wait()
				if got := len(inside.in); got != c.want {
					t.Errorf("%d calls came in at once, want %d", got, c.want)
				}
				time.Sleep(time.Second) // those that wait go on waiting
				close(inside.gate)
				for range 5 {
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

func TestOnlyTheMethodWithFailOpenRunsWhileTheStoreIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlocker.New()
		g, err := guard.New(store)
		if err != nil {
			t.Fatal(err)
		}
		inside := crowd{in: make(chan string, 5), gate: make(chan struct{})}
		close(inside.gate)
		docs := GuardDocs(g, inside)
		mend := store.Break()
		if err := docs.Read(t.Context(), "a"); err != nil {
			t.Error("Read:", err)
		}
		if err := docs.Write(t.Context(), "a"); !errors.Is(err, guard.ErrUnavailable) {
			t.Error("Write:", err)
		}
		mend()
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if len(inside.in) != 1 {
			t.Errorf("%d methods ran, want 1", len(inside.in))
		}
	})
}

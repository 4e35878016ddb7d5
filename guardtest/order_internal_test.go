package guardtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// told keeps what a test is told.
type told struct {
	testing.TB

	texts []string
}

func (f *told) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// nest takes keys inside each other.
func nest(g *guard.Guard, keys ...string) {
	nestIn(context.Background(), g, keys...)
}

// nestIn is nest inside what ctx holds.
func nestIn(ctx context.Context, g *guard.Guard, keys ...string) {
	if len(keys) == 0 {
		return
	}
	if err := g.Do(ctx, keys[0], func(ctx context.Context) error {
		nestIn(ctx, g, keys[1:]...)
		return nil
	}); err != nil {
		panic(err)
	}
}

func reading(g *guard.Guard, key string, fn func(ctx context.Context)) {
	if err := g.With(guard.WithShared()).Do(context.Background(), key, func(ctx context.Context) error {
		fn(ctx)
		return nil
	}); err != nil {
		panic(err)
	}
}

func together(g *guard.Guard, keys ...string) {
	if err := g.DoAll(context.Background(), keys, func(context.Context) error { return nil }); err != nil {
		panic(err)
	}
}

// tried takes one key by a try, and waits for another one under it.
func tried(g *guard.Guard, key, inner string) {
	l, err := g.TryAcquire(context.Background(), key)
	if err != nil {
		panic(err)
	}
	nest(g, inner)
	_ = l.Release(context.Background())
}

// held takes keys in turn, each without the context of the one before.
func held(g *guard.Guard, keys ...string) {
	for _, key := range keys {
		l, err := g.Acquire(context.Background(), key)
		if err != nil {
			panic(err)
		}
		defer func() { _ = l.Release(context.Background()) }()
	}
}

func TestLockOrder_FailsTheTestThatClosesACircle(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(g *guard.Guard)
		wrong int
	}{
		"one order":   {func(g *guard.Guard) { nest(g, "user:1", "cart:2"); nest(g, "user:3", "cart:4") }, 0},
		"both orders": {func(g *guard.Guard) { nest(g, "user:1", "cart:2"); nest(g, "cart:3", "user:4") }, 1},
		"a circle of three": {func(g *guard.Guard) {
			nest(g, "a:1", "b:1")
			nest(g, "b:1", "c:1")
			nest(g, "c:1", "a:1")
		}, 1},
		"three in one order": {func(g *guard.Guard) {
			nest(g, "a:1", "b:1", "c:1")
			nest(g, "a:1", "c:1")
			nest(g, "b:1", "c:1")
		}, 0},
		"one kind, sorted": {func(g *guard.Guard) { nest(g, "cart:1", "cart:2"); nest(g, "cart:2", "cart:3") }, 0},
		"one kind, both ways": {func(g *guard.Guard) {
			nest(g, "cart:1", "cart:2")
			nest(g, "cart:4", "cart:3")
		}, 1},
		"DoAll": {func(g *guard.Guard) {
			together(g, "user:1", "cart:2")
			together(g, "cart:2", "user:1")
		}, 0},
		"DoAll, and against": {func(g *guard.Guard) {
			together(g, "user:1", "cart:2")
			nest(g, "user:1", "cart:2")
		}, 1},
		"under a third": {func(g *guard.Guard) {
			nest(g, "all", "user:1", "cart:2")
			nest(g, "all", "cart:3", "user:4")
		}, 0},
		"under two others": {func(g *guard.Guard) {
			nest(g, "a:1", "user:1", "cart:2")
			nest(g, "b:1", "cart:3", "user:4")
		}, 1},
		"re-entry": {func(g *guard.Guard) {
			nest(g, "user:1", "cart:2", "user:1")
			nest(g, "user:1", "cart:2")
		}, 0},
		"without a ctx":       {func(g *guard.Guard) { held(g, "a:1", "b:1"); held(g, "b:1", "a:1") }, 1},
		"one after the other": {func(g *guard.Guard) { nest(g, "a:1"); nest(g, "b:1"); nest(g, "a:1") }, 0},
		"told once": {func(g *guard.Guard) {
			for range 3 {
				nest(g, "user:1", "cart:2")
				nest(g, "cart:3", "user:4")
			}
		}, 1},
		"readers": {func(g *guard.Guard) {
			s := g.With(guard.WithShared())
			nest(s, "a:1", "b:1")
			nest(s, "b:1", "a:1")
		}, 0},
		"a try": {func(g *guard.Guard) {
			nest(g.With(guard.WithMaxWait(0)), "a:1", "b:1")
			nest(g, "b:1", "a:1")
		}, 0},
		"inside a try": {func(g *guard.Guard) {
			tried(g, "a:1", "b:1")
			nest(g, "b:1", "a:1")
		}, 1},
		"readers, and a writer against": {func(g *guard.Guard) {
			nest(g.With(guard.WithShared()), "a:1", "b:1")
			nest(g, "b:1", "a:1")
		}, 1},
		"under a reader": {func(g *guard.Guard) {
			for _, keys := range [][]string{{"user:1", "cart:2"}, {"cart:3", "user:4"}} {
				reading(g, "all", func(ctx context.Context) { nestIn(ctx, g, keys...) })
			}
		}, 1},
		"under one of two others": {func(g *guard.Guard) {
			nest(g, "a:1", "user:1", "cart:2")
			nest(g, "b:1", "user:1", "cart:2")
			nest(g, "a:1", "cart:3", "user:4")
		}, 1},
		"DoAll, in a goroutine": {func(g *guard.Guard) {
			_ = g.DoAll(t.Context(), []string{"a:1", "c:1"}, func(ctx context.Context) error {
				done := make(chan struct{})
				go func() { defer close(done); nestIn(ctx, g, "b:1") }()
				<-done
				return nil
			})
			nest(g, "b:1", "a:1")
		}, 1},
		"a circle of three is told once": {func(g *guard.Guard) {
			for range 3 {
				nest(g, "a:1", "b:1")
				nest(g, "b:1", "c:1")
				nest(g, "c:1", "a:1")
			}
		}, 1},
		"permits": {func(g *guard.Guard) {
			p := g.With(guard.WithPermits(2))
			nest(p, "a:1", "b:1")
			nest(p, "b:1", "a:1")
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := &told{TB: t}
			c.do(watched(t, f, newOrders()))
			if len(f.texts) != c.wrong {
				t.Errorf("told %q, want %d", f.texts, c.wrong)
			}
		})
	}
}

// watched returns a guard that tells f.
func watched(t *testing.T, f *told, all *orders) *guard.Guard {
	t.Helper()
	g := testguard.New(t, memlocker.New(), guard.WithObserver(newWitness(f, all)))
	return g
}

func TestLockOrder_TellsTheStacksOfBothCalls(t *testing.T) {
	f, all := &told{TB: t}, newOrders()
	nest(watched(t, f, all), "user:1", "cart:2")
	together(watched(t, f, all), "cart:2", "user:1") // by another guard
	if len(f.texts) != 1 {
		t.Fatalf("told %q", f.texts)
	}
	for _, want := range []string{
		`"cart:2" inside "user:1"`, `"user:1" inside "cart:2"`, "guardtest.nest", "guardtest.together",
	} {
		if !strings.Contains(f.texts[0], want) {
			t.Errorf("%q is missing in %s", want, f.texts[0])
		}
	}
}

func TestAllowOrder_SilencesOneOrderUntilTheTestEnds(t *testing.T) {
	f, all := &told{TB: t}, newOrders()
	g := watched(t, f, all)
	t.Run("allowed", func(t *testing.T) {
		all.allow(t, "cart", "user")
		nest(g, "user:1", "cart:2")
		nest(g, "cart:3", "user:4")
	})
	if len(f.texts) != 0 {
		t.Errorf("told %q", f.texts)
	}
	if nest(g, "cart:3", "user:4"); len(f.texts) != 1 {
		t.Errorf("afterwards: told %q, want 1", f.texts)
	}
}

func TestAllowOrder_OfOneKind(t *testing.T) {
	f, all := &told{TB: t}, newOrders()
	g := watched(t, f, all)
	all.allow(t, "cart", "cart")
	nest(g, "cart:1", "cart:2")
	if nest(g, "cart:2", "cart:1"); len(f.texts) != 0 {
		t.Errorf("told %q", f.texts)
	}
}

// A guard may have a witness twice, as from New and WithObserver.
func TestLockOrder_Twice(t *testing.T) {
	f, all := &told{TB: t}, newOrders()
	g := watched(t, f, all).With(guard.WithObserver(newWitness(f, all)))
	nest(g, "a:1")
	nest(g, "b:1")
	if nest(g, "a:1"); len(f.texts)+len(all.held) != 0 {
		t.Errorf("told %q, and holds %v", f.texts, all.held)
	}
	nest(g, "a:1", "b:1")
	if nest(g, "b:1", "a:1"); len(f.texts) != 1 {
		t.Errorf("told %q, want 1", f.texts)
	}
}

// What a test stages is no order of the code under test, but what that does
// inside is.
func TestLockOrder_OfWhatATestStages(t *testing.T) {
	f := &told{TB: t}
	g := watched(t, f, newOrders())
	stage := func(key string) context.Context {
		l, _ := hold(t, g, key)
		return l.Context()
	}
	for _, keys := range [][2]string{{"staged:1", "other:1"}, {"other:2", "staged:2"}} {
		stage(keys[0])
		stage(keys[1])
	}
	if len(f.texts) != 0 {
		t.Errorf("told %q", f.texts)
	}
	nestIn(stage("staged:3"), g, "third:3")
	if nest(g, "third:4", "other:4"); len(f.texts) != 0 {
		t.Errorf("of another hold: told %q", f.texts)
	}
	if nest(g, "third:4", "staged:4"); len(f.texts) != 1 {
		t.Errorf("told %q, want 1", f.texts)
	}
}

func TestLockOrder_TellsNothingAfterTheTest(t *testing.T) {
	f, all := &told{}, newOrders()
	var g *guard.Guard
	t.Run("ends", func(inner *testing.T) {
		f.TB = inner
		g = watched(t, f, all)
	})
	nest(g, "user:1", "cart:2")
	if nest(g, "cart:3", "user:4"); len(f.texts) != 0 {
		t.Errorf("told %q", f.texts)
	}
	f = &told{TB: t}
	g = watched(t, f, all)
	nest(g, "user:1", "cart:2")
	if nest(g, "cart:3", "user:4"); len(f.texts) != 1 {
		t.Errorf("a later test is told %q, want 1", f.texts)
	}
}

func BenchmarkLockOrder(b *testing.B) {
	for name, opts := range map[string][]guard.Option{"without": nil, "with": {guard.WithObserver(LockOrder(b))}} {
		b.Run(name, func(b *testing.B) {
			g, err := guard.New(memlocker.New(), opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = g.Close(context.WithoutCancel(b.Context())) }()
			for b.Loop() {
				nest(g, "user:1", "cart:1")
			}
		})
	}
}

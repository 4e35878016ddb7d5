package redislocker_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redislocker"
	moved "github.com/go-lockguard/guard/moving/redislock"
)

// The code of docs/migrating.md.

// oldName gives the keys of the old code the names that they had there.
func oldName(key string) string {
	if strings.HasPrefix(key, "lock:sku:") {
		return key
	}
	return "" // where guard keeps all others
}

func openOld(rdb redis.UniversalClient) (*guard.Guard, error) {
	g, err := guard.New(redislocker.New(rdb, redislocker.WithKeyNames(oldName)))
	return g, err
}

func step0(ctx context.Context, rdb *redis.Client, sku string, deduct func(context.Context) error) error {
	lock, err := redislock.Obtain(ctx, rdb, "lock:sku:"+sku, 10*time.Second, nil)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release(context.WithoutCancel(ctx)) }()
	return deduct(ctx)
}

func step1(ctx context.Context, g *guard.Guard, sku string, deduct func(context.Context) error) error {
	return g.Do(ctx, "lock:sku:"+sku, deduct)
}

func step2(ctx context.Context, g *guard.Guard, sku string, deduct func(context.Context) error) error {
	return g.DoAll(ctx, []string{"lock:sku:" + sku, guard.Key("stock", sku)}, deduct)
}

func step3(ctx context.Context, g *guard.Guard, sku string, deduct func(context.Context) error) error {
	return g.Do(ctx, guard.Key("stock", sku), deduct)
}

func TestEachStepOfAMigrationExcludesTheOneBefore(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	outer := testguard.Patient(t, redislocker.New(rdb, redislocker.WithKeyNames(oldName)))
	inner := testguard.New(t, redislocker.New(rdb, redislocker.WithKeyNames(oldName)), guard.WithMaxWait(0))
	run := func(step int, g *guard.Guard, sku string, fn func(context.Context) error) error {
		switch step {
		case 0:
			return step0(t.Context(), rdb, sku, fn)
		case 1:
			return step1(t.Context(), g, sku, fn)
		case 2:
			return step2(t.Context(), g, sku, fn)
		}
		return step3(t.Context(), g, sku, fn)
	}
	for _, sku := range []string{"42", "a:b", "100%", "a%3Ab", "a b/{c}?", "漆器"} {
		for _, pair := range [][2]int{{0, 1}, {1, 0}, {1, 2}, {2, 1}, {2, 3}, {3, 2}} {
			err := run(pair[0], outer, sku, func(context.Context) error {
				err := run(pair[1], inner, sku, func(context.Context) error { return nil })
				for n := 0; n < 10 && errors.Is(err, guard.ErrUnavailable); n++ { // on a busy machine answers are late
					err = run(pair[1], inner, sku, func(context.Context) error { return nil })
				}
				if !errors.Is(err, guard.ErrNotAcquired) && !errors.Is(err, redislock.ErrNotObtained) {
					t.Errorf("%s: step %d while step %d holds: %v, want it held", sku, pair[1], pair[0], err)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: step %d: %v", sku, pair[0], err)
			}
		}
	}
}

// Code that package moving/redislock has moved, and deploy 2, wait in one
// queue.
func TestBothWaysToMoveTakeTurns(t *testing.T) {
	const turns = 400
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	waits := &moved.Options{RetryStrategy: moved.LinearBackoff(time.Millisecond)}
	ctx, cancel := context.WithCancel(t.Context())
	var all, moving, deployed atomic.Int64
	turn := func(side *atomic.Int64) {
		side.Add(1)
		time.Sleep(time.Millisecond)
		if all.Add(1) == turns {
			cancel()
		}
	}
	var sides sync.WaitGroup
	for range 2 { // processes of each
		old := moved.New(rdb)
		g, err := openOld(rdb)
		if err != nil {
			t.Fatal(err)
		}
		sides.Go(func() { // ends with ctx
			for ctx.Err() == nil {
				if lock, err := old.Obtain(ctx, "lock:sku:42", 10*time.Second, waits); err == nil { //nolint:govet // the old way is under test
					turn(&moving)
					_ = lock.Release(context.WithoutCancel(ctx))
				}
			}
		})
		sides.Go(func() { // likewise
			for ctx.Err() == nil {
				_ = step2(ctx, g, "42", func(context.Context) error { turn(&deployed); return nil })
			}
		})
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			if err := errors.Join(old.Guard.Close(ctx), g.Close(ctx)); err != nil {
				t.Error(err)
			}
		})
	}
	sides.Wait()
	if m, d := moving.Load(), deployed.Load(); m < turns/4 || d < turns/4 {
		t.Errorf("%d turns by package moving/redislock, %d by deploy 2", m, d)
	}
}

// The page says how to see that deploy 1 runs under the old name.
func TestTheOldNameIsThereWhileDeploy1Runs(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	forgotten := func(rdb redis.UniversalClient) (*guard.Guard, error) { return guard.New(redislocker.New(rdb)) }
	for _, c := range []struct {
		name string
		open func(redis.UniversalClient) (*guard.Guard, error)
		want int64
	}{{"with WithKeyNames", openOld, 1}, {"forgotten", forgotten, 0}} {
		g, err := c.open(rdb)
		if err != nil {
			t.Fatal(err)
		}
		err = step1(t.Context(), g, "42", func(ctx context.Context) error {
			if n := rdb.Exists(ctx, "lock:sku:42").Val(); n != c.want {
				t.Errorf("%s: EXISTS lock:sku:42 is %d, want %d", c.name, n, c.want)
			}
			return nil
		})
		if err := errors.Join(err, g.Close(t.Context())); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Each step that docs/migrating.md has in Go stands in this file.
func TestTheStepsOfTheDocsAreThese(t *testing.T) {
	doc, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("migrate_test.go")
	if err != nil {
		t.Fatal(err)
	}
	step := regexp.MustCompile("(?s)```go\n(func (?:oldName|step[0-9])\\(.*?)```")
	blocks := step.FindAllStringSubmatch(string(doc), -1)
	if len(blocks) < 4 {
		t.Errorf("only %d blocks found", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(string(code), b[1]) {
			t.Errorf("not in this file:\n%s", b[1])
		}
	}
}

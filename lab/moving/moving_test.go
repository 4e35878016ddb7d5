// Package moving tests the packages that have the API of other locks beside
// those locks.
package moving_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	oldlock "github.com/bsm/redislock"
	oldsync "github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/moving/redislock"
	"github.com/go-lockguard/guard/moving/redsync"
)

const (
	redisEnv = "GUARD_MOVING_REDIS"
	name     = "lock:sku:42"
	expiry   = 4 * time.Second
)

// kinds are the kinds of processes. Each takes the lock and returns its
// release.
var kinds = map[string]func(ctx context.Context, rdb *redis.Client) func() func(){
	"redislock": func(ctx context.Context, rdb *redis.Client) func() func() {
		c := oldlock.New(rdb)
		every := &oldlock.Options{RetryStrategy: oldlock.LinearBackoff(10 * time.Millisecond)}
		return func() func() {
			l, err := c.Obtain(ctx, name, expiry, every)
			if err != nil {
				return nil
			}
			return func() { _ = l.Release(ctx) }
		}
	},
	"redsync": func(ctx context.Context, rdb *redis.Client) func() func() {
		rs := oldsync.New(goredis.NewPool(rdb))
		return func() func() {
			m := rs.NewMutex(name, oldsync.WithExpiry(expiry), oldsync.WithRetryDelay(10*time.Millisecond))
			if m.LockContext(ctx) != nil {
				return nil
			}
			return func() { _, _ = m.UnlockContext(ctx) }
		}
	},
	"moved-redislock": func(ctx context.Context, rdb *redis.Client) func() func() {
		c := redislock.New(rdb)
		every := &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}
		return func() func() {
			l, err := c.Obtain(ctx, name, expiry, every) //nolint:govet // as callers have it before go fix
			if err != nil {
				return nil
			}
			return func() { _ = l.Release(ctx) }
		}
	},
	"moved-redsync": func(ctx context.Context, rdb *redis.Client) func() func() {
		rs := redsync.New(rdb)
		return func() func() {
			m := rs.NewMutex(name, redsync.WithExpiry(expiry)) //nolint:govet // as callers have it before go fix
			if m.LockContext(ctx) != nil {
				return nil
			}
			return func() { _, _ = m.UnlockContext(ctx) }
		}
	},
}

// work is a process of the kind that its name begins with.
func work(t *testing.T) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(redisEnv)})
	ledger := jobtest.Open(rdb)
	kind, _ := strings.CutSuffix(jobtest.Name(), "-victim")
	lock := kinds[kind](t.Context(), rdb)
	for {
		if release := lock(); release != nil {
			if err := ledger.Work(t.Context(), name, kind, func(ctx context.Context) error {
				if jobtest.Hangs() {
					return jobtest.Hang(ctx)
				}
				time.Sleep(5 * time.Millisecond)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			release()
		}
		time.Sleep(50 * time.Millisecond) // for others to come: guards hand over to guards
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOldAndNewProcessesExcludeEachOtherThroughDeaths(t *testing.T) {
	if jobtest.Name() != "" {
		work(t)
	}
	const test = "TestOldAndNewProcessesExcludeEachOtherThroughDeaths"
	server := redistest.Start(t)
	ledger := jobtest.Open(redistest.Client(t, server.Addr))
	env := redisEnv + "=" + server.Addr
	for kind := range kinds {
		ledger.Start(t, test, kind, env)
	}
	rounds := 0
	more := func(what string) {
		rounds += 2
		ledger.Await(t, what, func(done map[string]int) bool {
			for kind := range kinds {
				if done[kind] < rounds {
					return false
				}
			}
			return true
		})
	}
	more("each kind works")
	for kind := range kinds {
		victim := ledger.StartHanging(t, test, kind+"-victim", env)
		ledger.AwaitBegun(t, kind+"-victim")
		victim.Kill(t)
		more("each kind goes on after the death of " + kind)
	}
	ledger.Check(t)
}

// before is code with a changed import, in a module of its own.
const before = `package shop

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/moving/redislock"
	"github.com/go-lockguard/guard/moving/redsync"
)

func deduct(ctx context.Context, locks *redislock.Client, sku string) (*redislock.Lock, error) {
	return locks.Obtain(ctx, "lock:"+sku, 10*time.Second, nil)
}

func mutex(rs *redsync.Redsync, sku string) *redsync.Mutex {
	return rs.NewMutex("lock:"+sku, redsync.WithExpiry(10*time.Second), redsync.WithTries(1))
}
`

func TestGoFixWritesGuardsVerbsInOtherModules(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/go-lockguard/guard"
	text := strings.Replace(string(mod), "module "+module, "module example.com/shop", 1) +
		"\nrequire " + module + " v0.0.0-00010101000000-000000000000\nreplace " + module + " => " + root + "\n"
	dir := t.TempDir()
	file := filepath.Join(dir, "shop.go")
	for path, text := range map[string]string{
		file: before, filepath.Join(dir, "go.mod"): text, filepath.Join(dir, "go.sum"): string(sum),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"fix", "-inline", "./..."}, {"build", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"(*guard.Lease, error)",
		`locks.Guard.With(redislock.As(10*time.Second, nil)...).Acquire(ctx, "lock:"+sku)`,
		`rs.NewMutex("lock:"+sku, guard.WithTTL(10*time.Second), guard.WithMaxWait(`,
	} {
		if !strings.Contains(string(after), want) {
			t.Errorf("lacks %s:\n%s", want, after)
		}
	}
}

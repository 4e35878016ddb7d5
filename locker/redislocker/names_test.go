package redislocker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// legacy gives the keys of "legacy:" their earlier names.
func legacy(key string) string {
	if sku, ok := strings.CutPrefix(key, "legacy:"); ok {
		return "lock:sku:" + sku
	}
	return ""
}

func TestARawKeyAndPlainRedislockExcludeEachOther(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb, redislocker.WithKeyNames(legacy))

	c := claim("legacy:42")
	mustAcquire(t, l, c)
	if _, err := redislock.Obtain(t.Context(), rdb, "lock:sku:42", time.Minute, nil); !errors.Is(err,
		redislock.ErrNotObtained) {
		t.Errorf("redislock beside the locker: %v", err)
	}
	mustRelease(t, l, c)
	lock, err := redislock.Obtain(t.Context(), rdb, "lock:sku:42", time.Minute, nil)
	if err != nil {
		t.Fatal("redislock after the locker:", err)
	}
	held(t, l, claim("legacy:42"), locker.Try{Wait: true})
	if s, err := l.Inspect(t.Context(), "legacy:42"); err != nil || s.Owner != lock.Token() || s.Waiting != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, l, claim("legacy:42"))
	mustAcquire(t, l, claim("stock:42")) // in the usual layout
	if n := rdb.Exists(t.Context(), "guard:{stock:42}").Val(); n != 1 {
		t.Error("a key without a name of its own is not in the usual place")
	}
}

func TestInAClusterARawKeyAndItsQueueShareANode(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	l := open(t, rdb, redislocker.WithKeyNames(func(key string) string { return key[len("legacy:"):] }))
	for _, name := range []string{"lock:1", "lock:2", "user:{7}:lock", "a}b{c}", "}"} {
		c, next := fenced("legacy:"+escaped(name)), claim("legacy:"+escaped(name))
		a, err := l.Acquire(t.Context(), c, locker.Try{})
		if name == "}" {
			if !errors.Is(err, locker.ErrInvalidOption) {
				t.Errorf("%q: %v, want a refusal", name, err)
			}
			continue
		}
		if err != nil || !a.Acquired {
			t.Errorf("%q: %+v, %v", name, a, err)
			continue
		}
		if n := rdb.Exists(context.WithoutCancel(t.Context()), name).Val(); n != 1 {
			t.Errorf("%q is not there", name)
		}
		handsOver(t, l, c, next)
	}
}

// handsOver releases c, for which next waits. On a slow machine next may have
// left the queue meanwhile, or may not hear yet. Then handsOver does that
// again, with new claims.
func handsOver(t *testing.T, l locker.Locker, c, next *locker.Claim) {
	t.Helper()
	for out := patience(); ; {
		held(t, l, next, locker.Try{Wait: true})
		r, err := l.Release(t.Context(), c, locker.End{})
		switch {
		case err == nil && r == (locker.Released{Waiting: 1, Handed: true}):
			return
		case err != nil || r.Handed || out():
			t.Fatalf("Release: %+v, %v, want it handed over", r, err)
		}
		c, next = fenced(c.Key), claim(c.Key)
		mustAcquire(t, l, c)
	}
}

// escaped is a key as the guard names it for a store.
func escaped(key string) string {
	return strings.NewReplacer("{", "%7B", "}", "%7D").Replace(key)
}

func TestAKeyWithoutAKnownNameIsRefused(t *testing.T) {
	_, rdb := redistest.Miniredis(t)
	l := open(t, rdb, redislocker.WithKeyNames(legacy))
	hash := "%sha256:" + strings.Repeat("x", 43)
	if _, err := l.Acquire(t.Context(), claim(hash), locker.Try{}); !errors.Is(err, locker.ErrInvalidOption) {
		t.Errorf("%v, want ErrInvalidOption", err)
	}
}

func TestListGoesThroughEveryNodeOfACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	l := open(t, rdb)
	for key := range strings.FieldsSeq("a b c d e f g h i j k l m n o p") {
		mustAcquire(t, l, claim(key))
	}
	if all := names(t, l); len(all) != 16 {
		t.Errorf("%d keys are listed of 16", len(all))
	}
}

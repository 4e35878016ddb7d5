package redislocker_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func TestPlainRedislockUserIsExcludedBothWays(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	plain := redislock.New(rdb)
	ctx := t.Context()

	theirs, err := plain.Obtain(ctx, "guard:{k}", ttl, &redislock.Options{Metadata: "not ours"})
	if err != nil {
		t.Fatal(err)
	}
	c := claim("k")
	var held *guard.HeldError
	if _, err := l.Acquire(ctx, c); !errors.As(err, &held) {
		t.Fatalf("%v, want a HeldError", err)
	}
	if held.Holder != (guard.Holder{}) || held.Remaining <= 0 || held.Remaining > ttl {
		t.Errorf("%+v, want nothing about the holder but when its lease ends", held)
	}
	if err := theirs.Release(ctx); err != nil {
		t.Fatal(err)
	}

	mustAcquire(t, l, c)
	if _, err := plain.Obtain(ctx, "guard:{k}", ttl, nil); !errors.Is(err, redislock.ErrNotObtained) {
		t.Errorf("%v, want ErrNotObtained", err)
	}
	mustRelease(t, l, c)
}

func TestForeignValuesAreHeldByNobodyWeKnow(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	for name, value := range map[string]string{
		"empty": "", "short": "x", "binary": "\x00\xff{}", "huge": strings.Repeat("{", 1<<20),
		"long enough": strings.Repeat("x", 100), "json of another kind": strings.Repeat("x", 44) + "[1]",
	} {
		rdb.Set(t.Context(), "guard:{k}", value, 0)
		for tries := range 2 {
			c := claim("k")
			c.Tries = tries
			var held *guard.HeldError
			if _, err := l.Acquire(t.Context(), c); !errors.As(err, &held) {
				t.Fatalf("%s: %v, want a HeldError", name, err)
			}
			if *held != (guard.HeldError{Key: "k"}) {
				t.Errorf("%s: %+v, want nothing known but the key", name, held)
			}
		}
	}
}

func TestFencingTokensRiseThoughTheirCounterIsLost(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	ctx := t.Context()
	var last uint64
	rises := func(what string, token uint64, err error) {
		t.Helper()
		if err != nil || token < last+guard.FenceBlock && last > 0 {
			t.Fatalf("%s: token %d, %v, after the block from %d", what, token, err, last)
		}
		last = token
	}
	for i := range 20 {
		c := fenced("k")
		token, err := l.Acquire(ctx, c)
		rises("acquire", token, err)
		for range 3 {
			token, err = l.Fence(ctx, c)
			rises("fence", token, err)
		}
		time.Sleep(time.Millisecond) // so that the clock is past the four blocks of 64 microseconds
		switch i % 4 {
		case 0:
			rdb.FlushAll(ctx)
		case 1:
			rdb.Del(ctx, "guard:{k}:fence")
			mustRelease(t, l, c)
		case 2:
			rdb.Set(ctx, "guard:{k}:fence", "junk", 0)
			mustRelease(t, l, c)
		default:
			mustRelease(t, l, c)
		}
	}
}

func TestFencingTokensRiseThoughTheServersClockStepsBack(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	const ahead = 9_000_000_000_000_000 // in 2255, where a Lua number is about to lose its last digit
	rdb.Set(t.Context(), "guard:{k}:fence", ahead, 0)
	for i := range uint64(3) {
		c := fenced("k")
		if token := mustAcquire(t, l, c); token != ahead+1+i*guard.FenceBlock {
			t.Errorf("token %d, want the next after %d", token, uint64(ahead)+i*guard.FenceBlock)
		}
		mustRelease(t, l, c)
	}
}

func TestNoKeyIsWithoutATTL(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	a, b := open(t, rdb), open(t, rdb)
	c := fenced("k")
	mustAcquire(t, a, c)
	waiter := claim("k")
	waiter.Waits = true
	if _, err := b.Acquire(t.Context(), waiter); !errors.Is(err, guard.ErrNotAcquired) {
		t.Fatal(err)
	}
	all := rdb.Keys(t.Context(), "*").Val()
	if len(all) != 3 {
		t.Errorf("keys %q, want the lock, the queue and the counter", all)
	}
	for _, k := range all {
		if d := rdb.PTTL(t.Context(), k).Val(); d <= 0 {
			t.Errorf("%s has TTL %v", k, d)
		}
	}
	if n, err := a.Release(t.Context(), c); n.Waiting != 1 || err != nil {
		t.Errorf("Release: %+v, %v, want one waiting instance", n, err)
	}
}

func TestKeysReachRedisInOneTag(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb, redislocker.WithPrefix("shop"))
	for _, key := range []string{"a:b", "{a}b", "}a{", "a\x00b", "a\n", strings.Repeat("k", 1<<20)} {
		c := claim(key)
		mustAcquire(t, l, c)
		names := rdb.Keys(t.Context(), "*").Val()
		if len(names) != 1 {
			t.Fatalf("keys %q", names)
		}
		name := names[0]
		if !strings.HasPrefix(name, "shop:{") || !strings.HasSuffix(name, "}") || strings.Count(name, "{")+strings.Count(name, "}") != 2 ||
			len(name) > 256 || strings.ContainsAny(name, "\x00\n") {
			t.Errorf("%.20q is %q in Redis", key, name)
		}
		mustRelease(t, l, c)
	}
}

func TestGuardRunsOnRedis(t *testing.T) {
	s := redistest.Start(t)
	var shared int // guarded
	done := make(chan error)
	const instances, calls = 4, 50
	for i := range instances {
		g, err := guard.New(redislocker.New(redistest.Client(t, s.Addr)), guard.WithName(strconv.Itoa(i)), guard.WithMaxWait(ttl))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close(t.Context()) }()
		if err := g.Check(t.Context()); err != nil {
			t.Error(err)
		}
		for range calls {
			go func() {
				done <- g.Do(t.Context(), "k", func(context.Context) error { shared++; return nil })
			}()
		}
	}
	for range instances * calls {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if shared != instances*calls {
		t.Errorf("counted %d of %d", shared, instances*calls)
	}
}

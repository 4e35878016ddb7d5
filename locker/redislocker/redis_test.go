package redislocker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func TestPlainRedislockUserIsExcludedBothWays(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	plain := redislock.New(rdb)
	ctx := t.Context()

	theirs, err := plain.Obtain(ctx, lock("k"), ttl, &redislock.Options{Metadata: "not ours"})
	if err != nil {
		t.Fatal(err)
	}
	c := claim("k")
	a := held(t, l, c, locker.Try{})
	if a.Holder != (locker.Holder{}) || a.Remaining <= 0 || a.Remaining > ttl {
		t.Errorf("%+v, want nothing about the holder but when its lease ends", a)
	}
	if err := theirs.Release(ctx); err != nil {
		t.Fatal(err)
	}

	mustAcquire(t, l, c)
	if _, err := plain.Obtain(ctx, lock("k"), ttl, nil); !errors.Is(err, redislock.ErrNotObtained) {
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
		rdb.Set(t.Context(), lock("k"), value, 0)
		for _, how := range []locker.Try{{}, {Held: true}} {
			if a := held(t, l, claim("k"), how); a != (locker.Answer{}) {
				t.Errorf("%s: %+v, want nothing known", name, a)
			}
		}
		c := claim("k")
		queue(t, l, c) // whatever the channel is that a message goes to
		_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
	}
}

func TestFencingTokensRiseThoughTheirCounterIsLost(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	ctx := t.Context()
	var last uint64
	rises := func(what string, token uint64, err error) {
		t.Helper()
		if err != nil || token < last+locker.FenceBlock && last > 0 {
			t.Fatalf("%s: token %d, %v, after the block from %d", what, token, err, last)
		}
		last = token
	}
	for i := range 20 {
		c := fenced("k")
		rises("acquire", mustAcquire(t, l, c), nil)
		for range 3 {
			token, err := l.Fence(ctx, c)
			rises("fence", token, err)
		}
		time.Sleep(time.Millisecond) // so that the clock is past the four blocks of 64 microseconds
		switch i % 4 {
		case 0:
			rdb.FlushAll(ctx)
		case 1:
			rdb.Del(ctx, counter("k"))
			mustRelease(t, l, c)
		case 2:
			rdb.Set(ctx, counter("k"), "junk", 0)
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
	rdb.Set(t.Context(), counter("k"), ahead, 0)
	for i := range uint64(3) {
		c := fenced("k")
		if token := mustAcquire(t, l, c); token != ahead+1+i*locker.FenceBlock {
			t.Errorf("token %d, want the next after %d", token, uint64(ahead)+i*locker.FenceBlock)
		}
		mustRelease(t, l, c)
	}
}

func TestNoKeyIsWithoutATTL(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	c := fenced("k")
	mustAcquire(t, ls[0], c)
	queue(t, ls[1], fenced("k"))
	haveTTLs(t, rdb, "k", "k:wait", "k:due", "k:fence")
	release(t, ls[0], c, claim("k"), locker.Released{Waiting: 1, Handed: true, Queued: true})
	haveTTLs(t, rdb, "k", "k:wait", "k:due", "k:fence") // a later look drops what a claim was due that has the key
}

// haveTTLs checks that these keys exist, and no others, and that each has a
// TTL.
func haveTTLs(t *testing.T, rdb *redis.Client, want ...string) {
	t.Helper()
	all := rdb.Keys(t.Context(), "*").Val()
	if len(all) != len(want) {
		t.Errorf("keys %q, want those of %q", all, want)
	}
	for _, k := range all {
		if d := rdb.PTTL(t.Context(), k).Val(); d <= 0 {
			t.Errorf("%s has TTL %v", k, d)
		}
	}
}

func TestKeysReachRedisInOneTag(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	g, err := guard.New(redislocker.New(rdb, redislocker.WithPrefix("shop")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(t.Context()) }()
	for _, key := range []string{"a:b", "{a}b", "}a{", "a\x00b", "a\n", strings.Repeat("k", 64<<10)} {
		err := g.Do(t.Context(), key, func(ctx context.Context) error {
			names := rdb.Keys(ctx, "*").Val()
			if len(names) != 1 {
				t.Fatalf("keys %q", names)
			}
			name := names[0]
			if !strings.HasPrefix(name, "shop:{") || !strings.HasSuffix(name, "}") ||
				strings.Count(name, "{")+strings.Count(name, "}") != 2 || len(name) > 256 ||
				strings.ContainsAny(name, "\x00\n") {
				t.Errorf("%.20q is %q in Redis", key, name)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

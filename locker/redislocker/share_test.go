package redislocker_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// limited makes a claim with a limit.
func limited(key string, limit int) *locker.Claim {
	c := claim(key)
	c.Limit = limit
	return c
}

func crowdOf(key string) string { return lock(key) + ":crowd" }

// owns reports whether c owns its key, and gives it its full TTL again.
func owns(t *testing.T, l locker.Locker, c *locker.Claim) bool {
	t.Helper()
	return renew(t.Context(), t, l, c)[0] == nil
}

func TestPlainUsersOfANameAndCrowdsExcludeEachOther(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	plain := redislock.New(rdb)
	a := limited("k", locker.NoLimit)
	mustAcquire(t, ls[0], a)
	if _, err := plain.Obtain(t.Context(), lock("k"), ttl, nil); !errors.Is(err, redislock.ErrNotObtained) {
		t.Errorf("redislock beside a shared claim: %v, want ErrNotObtained", err)
	}
	if ok, err := rdb.SetNX(t.Context(), lock("k"), "redsync", ttl).Result(); ok || err != nil {
		t.Errorf("SET NX beside a shared claim: %v, %v", ok, err)
	}
	mustRelease(t, ls[0], a)

	theirs, err := plain.Obtain(t.Context(), lock("k"), ttl, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := limited("k", 4)
	if got := held(t, ls[1], b, locker.Try{Wait: true}); !got.Queued || got.Remaining <= 0 || got.Rest != 0 {
		t.Errorf("a permit beside a plain user: %+v", got)
	}
	if err := theirs.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustTry(t, ls[1], b, locker.Try{Wait: true, Queued: true})
}

// Both keys of a crowd end with its last share, and nothing stays.
func TestACrowdLeavesNothingBehind(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	a, b, w := limited("k", 3), limited("k", 3), claim("k")
	a.TTL = ttl / 2
	mustAcquire(t, ls[0], a)
	mustAcquire(t, ls[1], b)
	queue(t, ls[1], w)
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if d := rdb.PTTL(t.Context(), key).Val(); d <= 0 || d > ttl {
			t.Errorf("%s lasts %v", key, d)
		}
	}
	if d := rdb.PTTL(t.Context(), lock("k")).Val(); d < ttl-ttl/4 {
		t.Errorf("the key lasts %v, want the longest of the shares", d)
	}
	mustRelease(t, ls[1], b)
	if d := rdb.PTTL(t.Context(), crowdOf("k")).Val(); d <= 0 || d > ttl/2 {
		t.Errorf("the crowd lasts %v, want the share that is left", d)
	}
	_, _ = ls[1].Release(t.Context(), w, locker.End{Queued: true})
	mustRelease(t, ls[0], a)
	emptied(t, rdb)
}

// Both keys of a crowd to whom a release gave the key end with its last share too.
func TestACrowdThatWasHandedTheKeyEndsWithItsLastShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Miniredis(t)
		ls, es := listening(t, rdb, 2)
		a, short, long := claim("k"), limited("k", 3), limited("k", 3)
		short.TTL = time.Second
		mustAcquire(t, ls[0], a)
		queue(t, ls[1], short)
		queue(t, ls[1], long)
		mustRelease(t, ls[0], a)
		es[1].granted(t, short, 0)
		es[1].granted(t, long, 0)
		for _, key := range []string{lock("k"), crowdOf("k")} {
			if d := rdb.PTTL(t.Context(), key).Val(); d != long.LongOffer() {
				t.Errorf("%s lasts %v, want the longest of the offers, %v", key, d, long.LongOffer())
			}
		}
	})
}

// An operator deletes a lock. The rest of its crowd is no part of the next one.
func TestWhatIsLeftOfACrowdIsNoPartOfTheNext(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	a, b := limited("k", locker.NoLimit), limited("k", 2)
	mustAcquire(t, ls[0], a)
	rdb.Del(t.Context(), lock("k"))
	if owns(t, ls[0], a) {
		t.Error("a renewal creates a key")
	}
	mustAcquire(t, ls[1], b)
	if n := rdb.ZCard(t.Context(), crowdOf("k")).Val(); n != 1 {
		t.Errorf("%d shares, want one", n)
	}
	if _, err := ls[0].Release(t.Context(), a, locker.End{}); !lost(err) {
		t.Errorf("Release of a share that is lost: %v", err)
	}
	if !owns(t, ls[1], b) {
		t.Error("b has lost its share")
	}
}

// A release that has lost the claim's entry finds the share by the owner id.
func TestAShareIsReleasedByOwnerIDAlone(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	a, b, w := limited("k", 2), limited("k", 2), claim("k")
	mustAcquire(t, ls[0], a)
	mustAcquire(t, ls[0], b)
	queue(t, ls[1], w)
	es[0].wanted(t, "k")
	for _, c := range []*locker.Claim{a, b} {
		mustRelease(t, ls[1], &locker.Claim{Key: "k", Owner: c.Owner, TTL: ttl, Limit: 2})
	}
	es[1].granted(t, w, 0)
}

// A claim that asks the server while its message is on the way owns its key
// once.
func TestAClaimThatWasHandedAShareJoinsOnce(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	a, b, c := claim("k"), limited("k", 2), limited("k", 2)
	mustAcquire(t, ls[0], a)
	queue(t, ls[1], b)
	queue(t, ls[1], c)
	mustRelease(t, ls[0], a)
	mustTry(t, ls[1], b, locker.Try{Wait: true, Queued: true})
	es[1].granted(t, b, 0)
	es[1].granted(t, c, 0)
	if n := rdb.ZCard(t.Context(), crowdOf("k")).Val(); n != 2 {
		t.Errorf("%d shares, want 2", n)
	}
	if n := rdb.ZCard(t.Context(), line("k")).Val() + rdb.ZCard(t.Context(), dues("k")).Val(); n != 1 {
		t.Errorf("%d entries of the queue are left, want those of c's dues", n)
	}
}

// The processes of a run that are gone are passed over.
func TestTheDeadOfARunArePassedOver(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 3)
	a, b, dead, c := claim("k"), limited("k", locker.NoLimit), limited("k", locker.NoLimit),
		limited("k", locker.NoLimit)
	mustAcquire(t, ls[0], a)
	queue(t, ls[1], b)
	queue(t, ls[2], dead)
	queue(t, ls[1], c)
	if err := ls[2].Close(t.Context()); err != nil { // deaf, and still in the queue
		t.Fatal(err)
	}
	mustRelease(t, ls[0], a)
	es[1].granted(t, b, 0)
	es[1].granted(t, c, 0)
	if n := rdb.ZCard(t.Context(), crowdOf("k")).Val(); n != 2 {
		t.Errorf("%d shares, want those of b and c", n)
	}
}

// As with a key of one owner, nobody waits in a queue of another type.
func TestAShareIsReleasedBesideAQueueOfAnotherType(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 1)
	a, b := limited("k", 2), limited("k", 2)
	mustAcquire(t, ls[0], a)
	mustAcquire(t, ls[0], b)
	rdb.Set(t.Context(), line("k"), "x", ttl)
	release(t, ls[0], a, nil, locker.Released{Handed: true})
	release(t, ls[0], b, nil, locker.Released{})
}

// On some servers keys end during a script. A share does not end with those of
// others that do.
func TestAShareOutlivesThoseThatEndDuringItsScript(t *testing.T) { synctest.Test(t, sharesOutlive) }

func sharesOutlive(t *testing.T) {
	rdb := redistest.MiniredisDialect(t, redistest.Dialect{Slow: time.Millisecond})
	l := open(t, rdb)
	for name, share := range map[string]func(a, b *locker.Claim) (owner *locker.Claim){
		"new":      func(_, b *locker.Claim) *locker.Claim { mustAcquire(t, l, b); return b },
		"acquired": func(a, _ *locker.Claim) *locker.Claim { mustTry(t, l, a, locker.Try{}); return a },
		"renewed": func(a, _ *locker.Claim) *locker.Claim {
			if !owns(t, l, a) {
				return nil
			}
			return a
		},
	} {
		for left := 1; left <= 40; left += 2 {
			key := name + strconv.Itoa(left)
			a, b := limited(key, locker.NoLimit), limited(key, locker.NoLimit)
			mustAcquire(t, l, a)
			endIn(t, rdb, key, time.Duration(left)*time.Millisecond)
			if owner := share(a, b); owner != nil && !owns(t, l, owner) {
				t.Errorf("%s: a share is lost because another ended %d ms after the script began", name, left)
			}
		}
	}
}

// endIn lets the one share of a key end in d, and the keys with it.
func endIn(t *testing.T, rdb *redis.Client, key string, d time.Duration) {
	t.Helper()
	entry := rdb.ZRange(t.Context(), crowdOf(key), 0, 0).Val()[0]
	ends := rdb.Time(t.Context()).Val().Add(d).UnixMilli()
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.ZAdd(t.Context(), crowdOf(key), redis.Z{Score: float64(ends), Member: entry})
		p.PExpireAt(t.Context(), crowdOf(key), time.UnixMilli(ends))
		p.PExpireAt(t.Context(), lock(key), time.UnixMilli(ends))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

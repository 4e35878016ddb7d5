package redislocker_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// splitReads starts a primary and a replica behind a proxy that sends
// subscriptions to the replica. It returns clients of the primary and of the
// proxy.
func splitReads(t *testing.T) (direct, rdb *redis.Client, follower *redis.Client) {
	t.Helper()
	primary, replica := replicated(t)
	p := redistest.NewProxy(t, primary.Addr)
	p.Split(replica.Addr)
	return redistest.Client(t, primary.Addr), redistest.Client(t, p.Addr), redistest.Client(t, replica.Addr)
}

// A server does not count who hears it through a replica. A message that comes
// from there is relied upon like any other.
func TestWhatAMessageOffersIsNotTakenBackOrCutShort(t *testing.T) {
	t.Parallel()
	direct, rdb, follower := splitReads(t)
	holder, e := open(t, direct), newEar()
	waiter := openFor(t, e, rdb)
	mustAcquire(t, holder, claim("held"))
	queue(t, waiter, claim("held"))
	e.wakeAll(t)
	if n := len(follower.PubSubChannels(t.Context(), "guard:inbox:*").Val()); n != 1 {
		t.Fatalf("%d subscriptions at the replica, want 1", n)
	}
	for name, c := range map[string]struct {
		limit int
		head  string // of the entry, in place of the one that it has
	}{
		"one that is told":         {0, "m"},
		"one that only looks":      {0, "l"},
		"a permit":                 {2, "m"},
		"a permit that only looks": {2, "l"},
	} {
		t.Run(name, func(t *testing.T) {
			a, w := limited(name, c.limit), limited(name, c.limit)
			alone := claim(name)
			if c.limit > 1 {
				a = alone // so that w has to wait
			}
			mustAcquire(t, holder, a)
			queue(t, waiter, w)
			entry := lineUp(t, direct, name)[0]
			direct.ZRem(t.Context(), line(name), entry)
			direct.ZAdd(t.Context(), line(name), redis.Z{
				Score: float64(time.Now().UnixMicro()), Member: c.head + entry[1:],
			})
			sent := time.Now()
			if _, err := holder.Release(t.Context(), a, locker.End{}); err != nil {
				t.Fatal(err)
			}
			rest, owned := restOfOffer(t, direct, w)
			passed := time.Since(sent)                                                  // of the offer, at most
			direct.Publish(t.Context(), "guard:inbox:"+w.Holder.Instance, "wanted end") // replicated behind all others
			for got := e.next(t, "the end"); got.what != "wanted"; got = e.next(t, "the end") {
				length := got.offer.Length
				if got.owner == w.Owner && (!owned && passed < length || length > rest+passed+time.Second/2) {
					t.Errorf("a message offers %v, and %v later the key is its own: %t, for %v",
						length, passed, owned, rest)
				}
			}
			direct.FlushAll(t.Context())
		})
	}
}

// restOfOffer returns how long c owns its key by what the server says, and
// whether it does.
func restOfOffer(t *testing.T, rdb *redis.Client, c *locker.Claim) (rest time.Duration, owned bool) {
	t.Helper()
	if c.Limit > 1 {
		for _, m := range rdb.ZRangeWithScores(t.Context(), crowdOf(c.Key), 0, -1).Val() {
			if entry, _ := m.Member.(string); entry[6:6+locker.OwnerLen] == c.Owner {
				return time.Until(time.UnixMilli(int64(m.Score))), true
			}
		}
		return 0, false
	}
	owned = rdb.GetRange(t.Context(), lock(c.Key), 0, locker.OwnerLen-1).Val() == c.Owner
	return rdb.PTTL(t.Context(), lock(c.Key)).Val(), owned
}

// Anybody can write to the names of a key. An entry that no locker has made must
// not stop a release, and must not cost the claims behind it an offer.
func TestAnEntryThatNoLockerHasMadeIsDropped(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	const ids = "0123456789012345678901" + "0123456789012345678901"
	for _, garbage := range []string{
		"", "x", "m", "m-1000", "\x00\xff\n", "mf9999" + ids[1:], strings.Repeat("{", 1<<16), // too short, or anything
		"m-0000" + ids + "{}", "m-10.5" + ids + "{}", "m- 100" + ids + "{}", "m-1e03" + ids + "{}",
		"m--100" + ids + "{}",
		"x-1000" + ids + "{}", "mx1000" + ids + "{}", " m-1000" + ids + "{}", "M-1000" + ids + "{}",
		"l-1000" + ids + "{}", "l-1000" + ids + `{"v":0,"offer":1000}`, "l-1000" + ids + ` {"v":1,"offer":1000}`,
		"m-abcd" + ids + `{"v":1,"offer":1000}`, "m-abcd" + ids + `{"v":1,"limit":"000004"}`,
	} {
		for _, score := range []float64{0, 1, -1, 0.5, math.Inf(-1), -1e300} { // 0: right in front
			for _, limit := range []int{0, 3} {
				a, w := claim("k"), limited("k", limit)
				mustAcquire(t, ls[0], a)
				place := queue(t, ls[1], w)
				es[0].wanted(t, "k")
				if score == 0 {
					score = float64(place - 1)
				}
				rdb.ZAdd(t.Context(), line("k"), redis.Z{Score: score, Member: garbage})
				release(t, ls[0], a, nil, locker.Released{Waiting: 2, Handed: true})
				es[1].granted(t, w, 0)
				if left := lineUp(t, rdb, "k"); len(left) != 0 {
					t.Errorf("%.40q is left", left)
				}
				mustRelease(t, ls[1], w)
			}
		}
	}
}

// An entry that could be a claim's costs a short offer at most, whatever else is
// in it.
func TestWhateverIsInAnEntryEndsNoReleaseMidway(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	const head = "1000" + "0123456789012345678901" + "0123456789012345678901"
	for _, about := range []string{
		"", "{}", `{"v":1}`, `{"v":1,"offer":}`, `{"v":1,"offer":0}`, `{"v":1,"offer":0000}`, `{"v":1,"offer":-1}`,
		`{"v":1,"offer":1e9}`, `{"v":1,"offer":99999999999999999999}`, `{"v":1,"offer":"x"}`, `{"v":`, `{"v":0,"offer":5}`,
		`{"v":1,"limit":"000000"}`, `{"v":1,"limit":"abcdef"}`, `{"v":1,"limit":"-00001"}`, `{"v":1,"limit":"   nan"}`,
		`{"v":1,"limit":"   inf"}`, `{"v":1,"limit":"999999"}`, `"limit":"000004"}`, `{"v":1,"offer":5000,"limit":"1e0005"}`,
	} {
		for _, how := range []string{"m-", "lf", "j-", "if"} {
			for _, score := range []float64{0, 1, math.Inf(-1), math.Inf(1), 1e300} {
				a, w := claim("k"), claim("k")
				mustAcquire(t, ls[0], a)
				place := queue(t, ls[1], w)
				es[0].wanted(t, "k")
				if score == 0 {
					score = float64(place - 1) // right in front
				}
				rdb.ZAdd(t.Context(), line("k"), redis.Z{Score: score, Member: how + head + about})
				if _, err := ls[0].Release(t.Context(), a, locker.End{}); err != nil {
					t.Errorf("%s%s at %v: %v", how, about, score, err)
				}
				rdb.FlushAll(t.Context())
				for len(es[1].heard) > 0 {
					<-es[1].heard
				}
			}
		}
	}
}

func TestACounterThatIsNoTokenIsNamed(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	for _, garbage := range []string{"inf", "1e300", "99999999999999999999", "9007199254740991"} {
		named := func(what string, err error) {
			t.Helper()
			if err == nil || errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), wrongAdvice) ||
				!strings.Contains(err.Error(), "the last fencing token") {
				t.Errorf("%s, %s: %v, want it to name the counter and what to do", garbage, what, err)
			}
		}
		rdb.Set(t.Context(), counter("k"), garbage, time.Minute)
		_, err := ls[0].Acquire(t.Context(), fenced("k"), locker.Try{})
		named("acquire", err)
		_, err = ls[0].Acquire(t.Context(), limited("k", 2), locker.Try{})
		if err != nil {
			t.Errorf("%s: a permit without tokens: %v", garbage, err)
		}
		rdb.Del(t.Context(), lock("k"), crowdOf("k"))

		a, w, last := claim("k"), fenced("k"), claim("k")
		mustAcquire(t, ls[0], a)
		queue(t, ls[1], w)
		queue(t, ls[1], last)
		es[0].wanted(t, "k")
		es[0].wanted(t, "k")
		release(t, ls[0], a, nil, locker.Released{Waiting: 2, Handed: true})
		es[1].granted(t, last, 0) // the other one finds out by its next look
		mustRelease(t, ls[1], last)
		rdb.FlushAll(t.Context())
	}
}

func TestARecordThatNoGuardHasKeptIsNamed(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	for _, garbage := range []string{"x", "result", "*x", "\x00", "0123456789012345678901"} {
		rdb.Set(t.Context(), lock("k")+":kept", garbage, time.Minute)
		for range 2 { // as the first, and once the key is known to have had a record
			a, err := l.Acquire(t.Context(), recalls("k"), locker.Try{Wait: true})
			if err == nil || errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), wrongAdvice) {
				t.Errorf("%q: %+v, %v, want an error that says what to do", garbage, a, err)
			}
		}
		if gone, err := l.Forget(t.Context(), "k"); !gone || err != nil {
			t.Errorf("%q: Forget: %v, %v", garbage, gone, err)
		}
	}
}

package redislocker_test

import (
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
			if _, err := holder.Release(t.Context(), a, nil); err != nil {
				t.Fatal(err)
			}
			rest, owned := restOfOffer(t, direct, w)
			direct.Publish(t.Context(), "guard:inbox:"+w.Holder.Instance, "wanted end") // replicated behind all others
			for got := e.next(t, "the end"); got.what != "wanted"; got = e.next(t, "the end") {
				if got.owner == w.Owner && (!owned || got.offer.Length > rest+time.Second/2) {
					t.Errorf("a message offers %v, and the key is its own: %t, for %v", got.offer.Length, owned, rest)
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

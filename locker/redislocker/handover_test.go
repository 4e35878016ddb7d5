package redislocker_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

var me = locker.Holder{Host: "h", PID: 7, Name: "n", Since: time.Date(2024, 2, 29, 1, 2, 3, 0, time.UTC)}

func TestAReleaseStoresTheVeryValueThatTheNextClaimWould(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	a, b := claim("k"), claim("k")
	b.Holder = me
	mustAcquire(t, ls[0], a)
	queue(t, ls[1], b)
	es[0].wanted(t, "k")
	release(t, ls[0], a, nil, locker.Released{Waiting: 1, Handed: true})
	es[1].granted(t, b, 0)

	value := rdb.Get(t.Context(), lock("k")).Val()
	seen := held(t, ls[0], claim("k"), locker.Try{})
	want := me
	want.Instance = b.Holder.Instance
	if value[:locker.OwnerLen] != b.Owner || want.Instance == "" || seen.Holder != want {
		t.Errorf("the key holds %q, read as %+v, want %+v", value, seen.Holder, want)
	}
	if seen.Remaining <= 0 || seen.Remaining > b.LongOffer() {
		t.Errorf("it is offered for %v, want at most %v", seen.Remaining, b.LongOffer())
	}
	mustTry(t, ls[1], b, locker.Try{Queued: true}) // as if the message had got lost
	if again := rdb.Get(t.Context(), lock("k")).Val(); again != value {
		t.Errorf("a release stored %q, an acquire %q", value, again)
	}
	if d := rdb.PTTL(t.Context(), lock("k")).Val(); d <= b.LongOffer() {
		t.Errorf("after an acquire of its own it has %v", d)
	}
}

func TestAClaimWhoseProcessIsGoneIsPassedOver(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 4)
	a, b, last := fenced("k"), fenced("k"), claim("k")
	token := mustAcquire(t, ls[0], a)
	queue(t, ls[1], fenced("k"))
	queue(t, ls[2], b)
	queue(t, ls[3], last)
	if err := ls[1].Close(t.Context()); err != nil { // nobody hears the message any more
		t.Fatal(err)
	}
	release(t, ls[0], a, nil, locker.Released{Waiting: 3, Handed: true})
	if got := es[2].granted(t, b, 1); got < token+locker.FenceBlock {
		t.Errorf("token %d after the block from %d", got, token)
	}
	if err := ls[3].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	release(t, ls[2], b, claim("k"), locker.Released{Waiting: 1}) // all are gone: the key is free
	if left := rdb.Exists(t.Context(), lock("k"), line("k")).Val(); left != 0 {
		t.Errorf("left behind: %q", rdb.Keys(t.Context(), "*").Val())
	}
}

// A release is bounded, so it may meet more dead processes than it passes over.
// Even then it must not leave the key free (law 7).
func TestHoweverManyAreGoneTheKeyIsNotLeftFreeWhileOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Miniredis(t)
		ls, es := listening(t, rdb, 2)
		a, b := claim("k"), claim("k")
		mustAcquire(t, ls[0], a)
		due := float64(rdb.Time(t.Context()).Val().UnixMilli())
		for range 150 {
			gone := claim("k")
			rdb.ZAdd(t.Context(), line("k"), redis.Z{Score: 1, Member: entryOf(gone, "m-1000", `{"v":1}`)})
			rdb.ZAdd(t.Context(), dues("k"), redis.Z{Score: due, Member: gone.Owner})
		}
		queue(t, ls[1], b)
		if r, err := ls[0].Release(t.Context(), a, locker.End{}); err != nil || !r.Handed || r.Waiting != 151 {
			t.Fatalf("Release: %+v, %v, want it handed over", r, err)
		}
		sent := time.Now()
		held(t, ls[0], claim("k"), locker.Try{})
		es[1].nothing(t)
		eventually(t, "b owns the key", func() bool {
			a, err := ls[1].Acquire(t.Context(), b, locker.Try{Wait: true, Queued: true})
			return err == nil && a.Acquired
		})
		if took := time.Since(sent); took > b.LongOffer() {
			t.Errorf("it took %v, want the offer at most", took)
		}
	})
}

// A claim may be queued before its process could be told. The scripts cannot
// know whether such a claim is still there.
func TestAClaimWithoutALiveSubscriptionIsHandedTheKeyAllTheSame(t *testing.T) {
	s := redistest.Start(t)
	for name, rights := range map[string][]string{
		"without the right to subscribe":            {"~guard:*", "+@all", "&*", "-subscribe"},
		"without the right to publish":              {"~guard:*", "+@all", "&*", "-publish", "-subscribe"},
		"without the right to anybody else's inbox": {"~guard:*", "+@all", "resetchannels"},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := as(t, s, rights)
			a, b := open(t, rdb), open(t, rdb)
			c, w := claim("k"), claim("k")
			mustAcquire(t, a, c)
			queue(t, b, w)
			if e := lineUp(t, rdb, "k"); len(e) != 1 || e[0][0] != 'l' {
				t.Errorf("the queue has %q, want an entry of one that only looks", e)
			}
			release(t, a, c, nil, locker.Released{Waiting: 1, Handed: true})
			mustTry(t, b, w, locker.Try{Wait: true, Queued: true})
			mustRelease(t, b, w)
		})
	}
}

func TestAKeyIsHandedOverUnderAnyPrefix(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	for _, prefix := range []string{"p", `it's "a\b"]] -- \n`, "%d\\", "läuft"} {
		ours := redislocker.WithPrefix(prefix)
		holder, waiter := open(t, rdb, ours), open(t, rdb, ours)
		a, b := claim("k"), claim("k")
		mustAcquire(t, holder, a)
		queue(t, waiter, b)
		inbox := rdb.Subscribe(t.Context(), prefix+":inbox:"+b.Holder.Instance)
		defer inbox.Close()
		if _, err := inbox.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		release(t, holder, a, nil, locker.Released{Waiting: 1, Handed: true})
		if m, err := inbox.ReceiveMessage(t.Context()); err != nil || !strings.Contains(m.Payload, " "+b.Owner+" ") {
			t.Errorf("%s: the message is %v, %v, want one about %s", prefix, m, err, b.Owner)
		}
	}
}

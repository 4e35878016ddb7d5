package redislocker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The version without limits knows no records either. These tests are about its
// processes beside those that keep results.

func recalls(key string) *locker.Claim {
	c := claim(key)
	c.Recall = true
	return c
}

// unhurried keeps the n claims that wait for k in the queue, however slow the
// test is. It makes them wait again if they have left it.
func (o older) unhurried(n int64, wait func()) {
	o.Helper()
	eventually(o.T, "all wait", func() bool {
		wait()
		for _, key := range []string{line("k"), dues("k")} {
			o.rdb.Expire(o.Context(), key, time.Hour)
		}
		soon := float64(time.Now().Add(time.Hour).UnixMilli())
		for _, entry := range lineUp(o.T, o.rdb, "k") {
			owner := entry[6 : 6+locker.OwnerLen]
			o.rdb.ZAdd(o.Context(), dues("k"), redis.Z{Score: soon, Member: owner})
		}
		return o.rdb.ZCard(o.Context(), line("k")).Val() == n
	})
}

// recorded asks for the record of k, which must be the wanted one.
func (o older) recorded(l *redislocker.Locker, want string) {
	o.Helper()
	a, err := l.Acquire(o.Context(), recalls("k"), locker.Try{Wait: true})
	if err != nil || a.Acquired || a.Record != want {
		o.Fatalf("%+v, %v, want the record %q", a, err, want)
	}
	if rest := o.rdb.PTTL(o.Context(), lock("k")+":kept").Val(); rest <= 0 || rest > time.Hour {
		o.Fatalf("the record has a rest of %v, want its own TTL", rest)
	}
}

// owned reports whether c owns k in the store.
func (o older) owned(c *locker.Claim) bool {
	o.Helper()
	value := o.rdb.GetRange(o.Context(), lock("k"), 0, locker.OwnerLen-1).Val()
	return value == c.Owner
}

// A record is kept while a claim of the older version waits. That claim gets the
// key, and neither it nor its release changes the record.
func TestAVersionWithoutResultsIsServedBesideARecord(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	old := olderOn(t, rdb)
	a, joins, w := recalls("k"), recalls("k"), claim("k")
	mustAcquire(t, ls[0], a)
	old.unhurried(2, func() {
		queue(t, ls[1], joins)
		if !old.waits(w, false) {
			t.Fatal("the older version did not wait")
		}
	})
	r, err := ls[0].Keep(t.Context(), a, nil, locker.Record{Value: "result", TTL: time.Hour})
	if err != nil || !r.Handed {
		t.Fatalf("Keep: %+v, %v, want the key handed over", r, err)
	}
	if !old.owned(w) || len(lineUp(t, rdb, "k")) != 0 {
		t.Fatal("want the older version to own the key, and nobody to wait")
	}
	old.recorded(ls[1], "result")
	if !old.frees(w) {
		t.Fatal("it did not own the key")
	}
	old.recorded(ls[1], "result")
	if n := rdb.Exists(t.Context(), lock("k")).Val(); n != 0 {
		t.Fatal("the key is not free")
	}
}

// The older version hands its key to one claim that recalls. Only that claim
// keeps a record, and the others that wait leave the queue.
func TestAVersionWithoutResultsHandsAKeyToAClaimThatRecalls(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	old := olderOn(t, rdb)
	a, b, c := claim("k"), recalls("k"), recalls("k")
	mustAcquire(t, ls[0], a) // stands for one of that version: its value has not changed
	old.unhurried(2, func() {
		queue(t, ls[1], b)
		queue(t, ls[1], c)
	})
	if !old.frees(a) || !old.owned(b) {
		t.Fatal("want the key handed to the first that waited")
	}
	mustTry(t, ls[1], b, locker.Try{Wait: true, Queued: true})
	begun := locker.Record{Value: "begun", TTL: time.Hour}
	if record, err := ls[1].Begin(t.Context(), b, begun); record != "" || err != nil {
		t.Fatalf("Begin: %q, %v", record, err)
	}
	if _, err := ls[1].Begin(t.Context(), c, begun); err == nil {
		t.Fatal("a claim that does not own the key has begun")
	}
	if _, err := ls[1].Keep(t.Context(), c, nil, locker.Record{Value: "false", TTL: time.Hour}); err == nil {
		t.Fatal("a claim that does not own the key has kept a record")
	}
	if v := rdb.Get(t.Context(), lock("k")+":kept").Val(); v != "*"+b.Owner+"begun" {
		t.Fatalf("the mark has become %q", v)
	}
	r := locker.Record{Value: "result", TTL: time.Hour}
	if _, err := ls[1].Keep(t.Context(), b, nil, r); err != nil {
		t.Fatal(err)
	}
	if n := len(lineUp(t, rdb, "k")); n != 0 {
		t.Fatalf("%d claims wait beside a record", n)
	}
	old.recorded(ls[0], "result")
}

// The mark of a call that ended with its process counts while the older version
// has the key, and after that.
func TestAVersionWithoutResultsLeavesAMark(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	old := olderOn(t, rdb)
	dead, w := recalls("k"), claim("k")
	mustAcquire(t, ls[0], dead)
	begun := locker.Record{Value: "begun", TTL: time.Hour}
	if record, err := ls[0].Begin(t.Context(), dead, begun); record != "" || err != nil {
		t.Fatalf("Begin: %q, %v", record, err)
	}
	rdb.Del(t.Context(), lock("k")) // its TTL is over
	if old.waits(w, false) {
		t.Fatal("the older version waits for a free key")
	}
	mustAcquire(t, ls[0], w) // stands for one of that version: its value has not changed
	old.recorded(ls[1], "begun")
	if !old.frees(w) {
		t.Fatal("it did not own the key")
	}
	old.recorded(ls[1], "begun")
}

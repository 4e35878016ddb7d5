package redislocker_test

import (
	_ "embed"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// entryOf returns the entry of a claim of another process, or of another version.
func entryOf(c *locker.Claim, head, line string) string {
	return head + c.Owner + strings.Repeat("i", locker.OwnerLen) + line
}

func TestAnEntryIsMarkedWithItsVersion(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	mustAcquire(t, ls[0], claim("k"))
	c := claim("k")
	queue(t, ls[1], c)
	e := lineUp(t, rdb, "k")[0]
	if e[:6] != "m-1000" || e[6:28] != c.Owner || e[28:50] != c.Holder.Instance || e[50:56] != `{"v":1` {
		t.Errorf("the entry is %q", e)
	}
}

// recorded is what a process has stored, see TestAnEntryIsStoredAsRecorded.
//
//go:embed testdata/entry-1.txt
var recorded string

// Two versions work on the same keys while a service is deployed.
func TestAProcessAsRecordedAndTodaysTakeTurns(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 1)
	entry := strings.TrimSpace(recorded)
	value, owner, instance := entry[6:], entry[6:28], entry[28:50]
	rdb.Set(t.Context(), lock("k"), value, ttl) // it holds
	c := claim("k")
	a := held(t, ls[0], c, locker.Try{Wait: true})
	if a.Holder.Name != "stock" || a.Holder.PID != 7 || a.Holder.Instance != instance {
		t.Errorf("the holder is read as %+v", a.Holder)
	}
	rdb.Del(t.Context(), lock("k"))
	mustTry(t, ls[0], c, locker.Try{Wait: true, Queued: true})
	now := rdb.Time(t.Context()).Val().UnixMilli() // it waits
	rdb.ZAdd(t.Context(), line("k"), redis.Z{Score: 1, Member: entry})
	rdb.ZAdd(t.Context(), dues("k"), redis.Z{Score: float64(now + time.Hour.Milliseconds()), Member: owner})
	inbox := rdb.Subscribe(t.Context(), "guard:inbox:"+instance)
	defer func() { _ = inbox.Close() }()
	if _, err := inbox.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	release(t, ls[0], c, nil, locker.Released{Waiting: 1, Handed: true})
	if got := rdb.Get(t.Context(), lock("k")).Val(); got != value {
		t.Errorf("the key holds %q, want what it would store itself", got)
	}
	m, err := inbox.ReceiveMessage(t.Context())
	if want := "offered 3333 " + owner + " "; err != nil || !strings.HasPrefix(m.Payload, want) ||
		!strings.HasSuffix(m.Payload, " 0 k") {
		t.Errorf("told %v, %v, want %q, a token and 0 k", m, err, want)
	}
}

func TestAClaimOfANewerVersionIsLeftAloneAndSaid(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	a, newer := claim("k"), claim("k")
	mustAcquire(t, ls[0], a)
	entry := entryOf(newer, "m-1000", `{"v":2,"x":1}`)
	rdb.ZAdd(t.Context(), line("k"), redis.Z{Score: 1, Member: entry})
	says := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "newer") && !strings.Contains(err.Error(), "version") {
			t.Errorf("%s: %v, want an error that says so", what, err)
		}
	}
	_, err := ls[1].Acquire(t.Context(), claim("k"), locker.Try{Wait: true})
	says("a look", err)
	_, err = ls[0].Release(t.Context(), a, locker.End{Next: claim("k")})
	says("a release", err)
	if !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("a release: %v, want an ErrUnavailable", err)
	}
	if e := lineUp(t, rdb, "k"); len(e) != 1 || e[0] != entry {
		t.Errorf("the queue has %q, want the entry alone", e)
	}
	if rdb.Exists(t.Context(), lock("k")).Val() != 0 {
		t.Error("the key is not free")
	}
}

// A claim that was not sure to hear is passed over only if it is most likely
// dead.
func TestAClaimThatWasNotSeenWhenItWasDueIsPassedOver(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	a, dead, b := claim("k"), claim("k"), claim("k")
	mustAcquire(t, ls[0], a)
	rdb.ZAdd(t.Context(), line("k"), redis.Z{Score: 1, Member: entryOf(dead, "l-1000", `{"v":1,"offer":5000,"pid":1}`)})
	now := rdb.Time(t.Context()).Val()
	rdb.ZAdd(t.Context(), dues("k"), redis.Z{Score: float64(now.UnixMilli() - 200), Member: dead.Owner})
	queue(t, ls[1], b)
	release(t, ls[0], a, nil, locker.Released{Waiting: 2, Handed: true})
	es[1].granted(t, b, 0)
}

package redislocker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// ear is a guard that tells the test what it hears.
type ear struct {
	lockerkit.Deaf

	heard chan news
}

// news is one call of a Waker.
type news struct {
	what, key, owner string
	offer            locker.Offer
}

func newEar() *ear { return &ear{heard: make(chan news, 100)} }

func (e *ear) Granted(key, owner string, o locker.Offer) {
	e.heard <- news{"granted", key, owner, o}
}

func (e *ear) Wanted(key string) { e.heard <- news{what: "wanted", key: key} }
func (e *ear) Wake(key string)   { e.heard <- news{what: "wake", key: key} }
func (e *ear) WakeAll()          { e.heard <- news{what: "wake all"} }

func (e *ear) next(t *testing.T, want string) news {
	t.Helper()
	select {
	case got := <-e.heard:
		return got
	case <-time.After(10 * time.Second):
		t.Fatalf("heard nothing, want %s", want)
		return news{}
	}
}

// granted waits for the news that c owns its key. It returns the token that
// came with it.
func (e *ear) granted(t *testing.T, c *locker.Claim, waiting int) (token uint64) {
	t.Helper()
	got := e.next(t, "a grant")
	token, got.offer.Token = got.offer.Token, 0
	if got.offer.Length == c.ShortOffer() { // a machine so slow that c was not seen in time
		got.offer.Length = c.LongOffer()
	}
	want := news{"granted", c.Key, c.Owner, locker.Offer{Length: c.LongOffer(), Waiting: waiting}}
	if got != want {
		t.Fatalf("heard %+v, want %+v", got, want)
	}
	if c.Fencing != (token > 0) {
		t.Fatalf("token %d with Fencing %t", token, c.Fencing)
	}
	return token
}

func (e *ear) wanted(t *testing.T, key string) {
	t.Helper()
	if got := e.next(t, "wanted"); got != (news{what: "wanted", key: key}) {
		t.Fatalf("heard %+v, want that %s is wanted", got, key)
	}
}

func (e *ear) wakeAll(t *testing.T) {
	t.Helper()
	if got := e.next(t, "wake all"); got != (news{what: "wake all"}) {
		t.Fatalf("heard %+v, want that everybody tries", got)
	}
}

func (e *ear) nothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-e.heard:
		t.Fatalf("heard %+v, want nothing", got)
	default:
	}
}

// listening opens n lockers with confirmed subscriptions on an empty server.
func listening(t *testing.T, rdb redis.UniversalClient, n int) ([]*redislocker.Locker, []*ear) {
	t.Helper()
	ls, es := make([]*redislocker.Locker, n), make([]*ear, n)
	mustAcquire(t, open(t, rdb), claim("held"))
	for i := range ls {
		es[i] = newEar()
		ls[i] = openFor(t, es[i], rdb)
		queue(t, ls[i], claim("held"))
		es[i].wakeAll(t)
	}
	if err := rdb.Del(t.Context(), lock("held"), line("held"), dues("held")).Err(); err != nil {
		t.Fatal(err)
	}
	return ls, es
}

// queue makes c wait for its key, which somebody else owns.
func queue(t *testing.T, l locker.Locker, c *locker.Claim) locker.Place {
	t.Helper()
	a := held(t, l, c, locker.Try{Wait: true})
	if !a.Queued || a.Place <= 0 {
		t.Fatalf("%+v, want it queued", a)
	}
	return a.Place
}

// The names in Redis of the entries of one key.
func lock(key string) string    { return "guard:{" + key + "}" }
func line(key string) string    { return "guard:{" + key + "}:wait" }
func dues(key string) string    { return "guard:{" + key + "}:due" }
func counter(key string) string { return "guard:{" + key + "}:fence" }

// lineUp returns the entries in the queue of key.
func lineUp(t *testing.T, rdb redis.UniversalClient, key string) []string {
	t.Helper()
	entries, err := rdb.ZRange(t.Context(), line(key), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

package redislocker_test

import (
	"strconv"
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

func names(t *testing.T, l *redislocker.Locker) map[string]locker.KeyState {
	t.Helper()
	all := map[string]locker.KeyState{}
	for s, err := range l.List(t.Context()) {
		if err != nil {
			t.Errorf("List: %q: %v", s.Key, err)
		}
		all[s.Key] = s
	}
	return all
}

func TestListShowsWhatIsUnderThePrefixOnly(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	const n = 1200 // more than a page
	l := open(t, rdb, redislocker.WithPrefix("a*[b]?"))
	for i := range n {
		mustAcquire(t, l, fenced(strconv.Itoa(i)))
	}
	mustAcquire(t, open(t, rdb, redislocker.WithPrefix("axbc")), claim("other"))
	held(t, l, claim("0"), locker.Try{Wait: true})
	rdb.Set(t.Context(), "a*[b]?:inbox", "", 0)
	rdb.Set(t.Context(), "a*[b]?:{%probe:x}", "", 0)

	all := names(t, l)
	if len(all) != n {
		t.Errorf("%d keys are listed of %d", len(all), n)
	}
	if s := all["0"]; !s.Held || s.Remaining <= 0 {
		t.Errorf("key 0 is %+v", s)
	}
}

func TestListShowsAQueueWhoseKeyIsFree(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	mustAcquire(t, l, claim("k"))
	held(t, l, claim("k"), locker.Try{Wait: true})
	rdb.Del(t.Context(), "guard:{k}")
	if s := names(t, l)["k"]; s.Held || s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
}

func TestInspectShowsStrangers(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	lock, err := redislock.Obtain(t.Context(), rdb, "guard:{k}", time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Inspect(t.Context(), "k")
	if err != nil || !s.Held || s.Owner != lock.Token() || s.Holder != (locker.Holder{}) {
		t.Errorf("a redislock user is %+v, %v", s, err)
	}
	rdb.Set(t.Context(), "guard:{forever}", "1", 0)
	if s, err := l.Inspect(t.Context(), "forever"); err != nil || !s.Held || s.Remaining != 0 {
		t.Errorf("a key without a TTL is %+v, %v", s, err)
	}
	rdb.LPush(t.Context(), "guard:{list}", "x")
	if _, err := l.Inspect(t.Context(), "list"); err == nil || !strings.Contains(err.Error(), "WithPrefix") {
		t.Errorf("a list is %v, want advice", err)
	}
	listed := map[string]bool{}
	for s, err := range l.List(t.Context()) {
		listed[s.Key] = err == nil
	}
	if !listed["k"] || !listed["forever"] || listed["list"] || len(listed) != 3 {
		t.Errorf("listed without an error: %v", listed)
	}
}

func TestAForcedReleaseReachesAListenerAtOnce(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	g, other := newGuard(t, rdb), newGuard(t, rdb)
	blocked, err := other.Acquire(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.With(guard.WithMaxWait(time.Millisecond)).Acquire(t.Context(), "other"); err == nil {
		t.Fatal("not held")
	}
	_ = blocked.Release(t.Context())
	eventually(t, "g listens", func() bool {
		return len(rdb.PubSubChannels(t.Context(), "guard:inbox:*").Val()) > 0
	})
	l, err := g.With(guard.WithTTL(time.Hour), guard.WithMaxHold(0)).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	s, err := other.Inspect(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.ForceRelease(t.Context(), "k", s.Owner); err != nil {
		t.Fatal(err)
	}
	<-l.Context().Done() // a renewal by itself would come in twenty minutes
	_ = l.Release(t.Context())
}

func TestConnectionsHaveAName(t *testing.T) {
	s := redistest.Start(t)
	mine := redistest.Client(t, s.Addr)
	count := func(name string) int {
		n := 0
		for line := range strings.Lines(mine.ClientList(t.Context()).Val()) {
			if strings.Contains(line, " name="+name+" ") {
				n++
			}
		}
		return n
	}
	own := redis.NewClient(&redis.Options{Addr: s.Addr, ClientName: "mine"})
	t.Cleanup(func() { _ = own.Close() })
	for _, c := range []struct {
		rdb  *redis.Client
		opts []redislocker.Option
		want string
	}{
		{mine, nil, "guard"},
		{mine, []redislocker.Option{redislocker.WithClientName("stock-3")}, "stock-3"},
		{own, []redislocker.Option{redislocker.WithClientName("stock-4")}, "mine"},
	} {
		l := open(t, c.rdb, c.opts...)
		k := claim("name:" + c.want)
		mustAcquire(t, l, k)
		held(t, l, claim(k.Key), locker.Try{Wait: true})
		// and the inbox's
		eventually(t, "two connections are called "+c.want, func() bool { return count(c.want) == 2 })
	}
	before := count("")
	mustAcquire(t, open(t, mine, redislocker.WithClientName("")), claim("nameless"))
	if count("") != before+1 {
		t.Error("a connection without a name has one")
	}
}

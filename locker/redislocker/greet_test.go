package redislocker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

func TestALoginIsOneRoundTripWithTheName(t *testing.T) {
	_, p, direct, rdb := behindProxy(t)
	l := open(t, rdb)
	mustAcquire(t, l, claim("k"))
	if c := p.Commands(); c["HELLO"] != 1 || c["CLIENT"] != 0 {
		t.Errorf("a first acquire sent %v, want one HELLO that names the connection", c)
	}
	if list := direct.ClientList(t.Context()).Val(); strings.Count(list, "name=guard ") != 1 {
		t.Errorf("clients:\n%s", list)
	}
}

func TestALoginHasPasswordAndDatabase(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, Password: "secret", DB: 3})
	t.Cleanup(func() { _ = rdb.Close() })
	l := open(t, rdb)
	c := claim("k")
	mustAcquire(t, l, c)
	if n := rdb.Exists(t.Context(), lock("k")).Val(); n != 1 {
		t.Error("the key is in another database")
	}
	mustRelease(t, l, c)
}

// A try that gets its connection late leaves it for the next one.
func TestADialGoesOnWhenItsTryHasEnded(t *testing.T) {
	t.Parallel()
	_, p, direct, rdb := behindProxy(t)
	p.Far(redistest.Distance{RoundTrip: 300 * time.Millisecond, Opening: 2})
	l := open(t, rdb)
	const limit = 500 * time.Millisecond
	for range 20 {
		if a, err := l.Acquire(within(t, limit), claim("k"), locker.Try{}); err == nil && a.Acquired {
			if n := strings.Count(direct.ClientList(t.Context()).Val(), "name=guard "); n > 2 {
				t.Errorf("%d connections for one try at a time", n)
			}
			return
		}
	}
	t.Error("no try ever found a connection")
}

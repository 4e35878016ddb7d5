package redislocker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// expectRefusal wants an error that ends the wait and contains hint. The error
// must not repeat key or owner.
func expectRefusal(t *testing.T, err error, c *locker.Claim, hint string) {
	t.Helper()
	var answer redis.Error
	switch {
	case err == nil || errors.Is(err, locker.ErrUnavailable):
		t.Fatalf("%v, want a refusal", err)
	case !errors.As(err, &answer):
		t.Errorf("%v does not wrap what the server said", err)
	case !strings.Contains(err.Error(), hint):
		t.Errorf("%v, want it to say %q", err, hint)
	case strings.Contains(err.Error(), c.Key), strings.Contains(err.Error(), c.Owner):
		t.Errorf("%v names the key or the owner", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A waiter has not met the counter yet.
func TestFenceCounterOfAnotherTypeKeepsNoReleaseFromFreeingTheKey(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 3)
	a, b, c := claim("secret"), fenced("secret"), claim("secret")
	mustAcquire(t, ls[0], a)
	queue(t, ls[1], b)
	queue(t, ls[2], c)
	rdb.LPush(t.Context(), counter("secret"), "x")
	release(t, ls[0], a, nil, locker.Released{Waiting: 2, Handed: true})
	es[2].granted(t, c, 0)
	mustRelease(t, ls[2], c)
	expectRefusal(t, second(ls[1].Acquire(t.Context(), b, locker.Try{Wait: true, Queued: true})), b, "WithPrefix")
}

func TestUserWithoutRightsIsRefused(t *testing.T) {
	s := redistest.Start(t)
	admin := redistest.Client(t, s.Addr)
	for user, rules := range map[string]string{
		"scripts":  "~* +@all -evalsha -eval",
		"commands": "~* +@all -msetnx",
		"keys":     "~other:* +@all",
		"set":      "~* +@all -set",
	} {
		args := []any{"acl", "setuser", user, "on", ">pw"}
		for r := range strings.FieldsSeq(rules) {
			args = append(args, r)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr, Username: user, Password: "pw"})
		defer func() { _ = rdb.Close() }()
		l := open(t, rdb)
		c := claim("secret")
		_, err := l.Acquire(t.Context(), c, locker.Try{})
		if user == "scripts" || user == "commands" { // a first request needs neither, so the second one is refused
			if err != nil {
				t.Error(user, err)
			}
			_, err = l.Acquire(t.Context(), c, locker.Try{})
		}
		expectRefusal(t, err, c, "rights")
		admin.FlushAll(t.Context())
		if found := wantFinding(t, l.Check(t.Context(), ttl), redislocker.FindingRights,
			locker.Refuse); strings.Contains(found, c.Key) {
			t.Errorf("%q names a key", found)
		}
	}
}

// go-redis leaves the commands of a pipeline without an error if the login of a
// new connection is refused.
func TestRefusedLoginIsNoSuccess(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "right")
	for name, rdb := range map[string]*redis.Client{
		"wrong password":       redis.NewClient(&redis.Options{Addr: s.Addr, Password: "wrong"}),
		"no password":          redis.NewClient(&redis.Options{Addr: s.Addr}),
		"no such database":     redis.NewClient(&redis.Options{Addr: s.Addr, Password: "right", DB: 99}),
		"wrong user, password": redis.NewClient(&redis.Options{Addr: s.Addr, Username: "u", Password: "wrong"}),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { _ = rdb.Close() }()
			l := open(t, rdb)
			for _, c := range []*locker.Claim{claim("secret"), fenced("secret")} {
				_, err := l.Acquire(t.Context(), c, locker.Try{})
				for range 3 { // Redis hangs up on an unknown client whose command is long, as some before were
					if errors.Is(err, locker.ErrUnavailable) {
						_, err = l.Acquire(t.Context(), c, locker.Try{})
					}
				}
				expectRefusal(t, err, c, "")
				if err := renew(t.Context(), t, l, c)[0]; !errors.Is(err, locker.ErrUnavailable) {
					t.Errorf("Renew: %v, want ErrUnavailable", err)
				}
				if _, err := l.Release(t.Context(), c, locker.End{}); !errors.Is(err, locker.ErrUnavailable) {
					t.Errorf("Release: %v, want ErrUnavailable", err)
				}
			}
		})
	}
}

func TestServerInTroubleIsUnavailable(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	l := open(t, rdb)
	warm(t, l)
	config := func(name, value string) func() {
		return func() {
			t.Helper()
			if err := rdb.ConfigSet(t.Context(), name, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, trouble := range []struct {
		name       string
		begin, end func()
	}{
		{"OOM", config("maxmemory", "1"), config("maxmemory", "0")},
		{"NOREPLICAS", config("min-replicas-to-write", "1"), config("min-replicas-to-write", "0")},
		{
			"READONLY", func() { rdb.ReplicaOf(t.Context(), "127.0.0.1", "1") },
			func() { rdb.ReplicaOf(t.Context(), "NO", "ONE") },
		},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			trouble.begin()
			_, err := l.Acquire(t.Context(), claim("secret"), locker.Try{})
			trouble.end()
			if !errors.Is(err, locker.ErrUnavailable) {
				t.Errorf("%v, want ErrUnavailable", err)
			}
			if err != nil && (!strings.Contains(err.Error(), trouble.name) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%v, want it to say %s and not the key", err, trouble.name)
			}
			c := claim("after")
			mustAcquire(t, l, c)
			mustRelease(t, l, c)
		})
	}
}

func TestAReleaseWithoutMemoryHandsTheKeyOver(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	a, b := claim("k"), fenced("k")
	mustAcquire(t, ls[0], a)
	queue(t, ls[1], b)
	es[0].wanted(t, "k")
	rdb.ConfigSet(t.Context(), "maxmemory", "1")
	release(t, ls[0], a, claim("k"), locker.Released{Waiting: 1, Handed: true, Queued: true})
	es[1].granted(t, b, 1)
}

func TestHolderCanRenewAndReleaseWithoutMemory(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l := open(t, rdb)
	c := claim("k")
	mustAcquire(t, l, c)
	rdb.ConfigSet(t.Context(), "maxmemory", "1")
	if err := renew(t.Context(), t, l, c)[0]; err != nil {
		t.Errorf("Renew: %v", err)
	}
	mustRelease(t, l, c)
}

package redislocker_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

func TestCheckOfASoundServerPassesAndLeavesNothing(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	if err := open(t, rdb).Check(t.Context(), ttl); err != nil {
		t.Error(err)
	}
	emptied(t, rdb)
}

// documented reads the rights from the package's documentation.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`[~+&][a-z:*]{3,}`).FindAllString(string(text), -1)
}

func TestDocumentedRightsSuffice(t *testing.T) {
	s := redistest.Start(t)
	rights := documented(t)
	if len(rights) < 10 {
		t.Fatal("rights not found:", rights)
	}
	l := open(t, as(t, s, rights))
	if err := l.Check(t.Context(), ttl); err != nil {
		t.Errorf("with %v: %v", rights, err)
	}
	warm(t, l)
}

func TestCheckFindsEachMissingRight(t *testing.T) {
	s := redistest.Start(t)
	rights := documented(t)
	for i, missing := range rights {
		switch missing {
		case "+info": // only lets Check see more
			continue
		case "+mset": // for a try that is repeated
			continue
		case "&guard:inbox:*", "+publish", "+subscribe": // without them waiting is polling
			continue
		case "+select", "+client": // not used here
			continue
		}
		l := open(t, as(t, s, append(append([]string{}, rights[:i]...), rights[i+1:]...)))
		if err := l.Check(t.Context(), ttl); err == nil {
			t.Errorf("Check passes without %s", missing)
		}
	}
}

// as returns a client for a user with just the rights.
func as(t *testing.T, s *redistest.Server, rights []string) *redis.Client {
	t.Helper()
	args := []any{"acl", "setuser", "lease", "reset", "on", ">pw"}
	for _, r := range rights {
		args = append(args, r)
	}
	if err := redistest.Client(t, s.Addr).Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "lease", Password: "pw"})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestCheckNamesEvictionPolicy(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru")
	l := open(t, redistest.Client(t, s.Addr))
	err := l.Check(t.Context(), ttl)
	if err == nil || !strings.Contains(err.Error(), "maxmemory-policy") || !strings.Contains(err.Error(), "volatile-lru") {
		t.Errorf("%v, want it to name the setting", err)
	}
}

func TestCheckComparesRoundTripWithTTL(t *testing.T) {
	_, p, direct, rdb := behindProxy(t)
	l := open(t, rdb)
	warm(t, l)
	p.DelayReplies(20 * time.Millisecond)
	if err := l.Check(t.Context(), 100*time.Millisecond); err == nil || !strings.Contains(err.Error(), "WithTTL") {
		t.Errorf("%v, want it to name the setting", err)
	}
	if err := l.Check(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	direct.FlushAll(t.Context()) // what warm left
	emptied(t, direct)
}

func TestCheckOfADeadServerIsUnavailable(t *testing.T) {
	s := redistest.Start(t)
	l := open(t, redistest.Client(t, s.Addr))
	s.Kill()
	if err := l.Check(t.Context(), ttl); !errors.Is(err, guard.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
}

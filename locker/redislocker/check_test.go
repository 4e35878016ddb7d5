package redislocker_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
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

// All of these are in Redis 5.
func TestDocumentedCommandsAreThoseOfTheScripts(t *testing.T) {
	used := map[string]bool{}
	for outside := range strings.FieldsSeq("evalsha eval msetnx mset publish subscribe ping select client scan info") {
		used["+"+outside] = true // sent by itself, or by redislock's script
	}
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range regexp.MustCompile(`redis\.p?call\("([a-z]+)"`).FindAllStringSubmatch(string(text), -1) {
			used["+"+c[1]] = true
		}
	}
	for _, right := range documented(t) {
		if right[0] == '+' && !used[right] {
			t.Errorf("%s is documented and never used", right)
		}
		delete(used, right)
	}
	for right := range used {
		t.Errorf("%s is used and not documented", right)
	}
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
		case "+select", "+client", "+scan": // not used here
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
	if err := l.Check(t.Context(), ttl); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
}

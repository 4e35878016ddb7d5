package keyspace_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/keyspace"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A part of a store is a store.
func TestConformance(t *testing.T) {
	lockertest.RunVirtual(t, func(*testing.T) (a, b locker.Locker) {
		mem, space := memlocker.New(), keyspace.New("part/")
		return space.In(mem), space.In(mem.Peer())
	})
}

// deaf is a Waker that hears nothing.
type deaf struct{ lockerkit.Deaf }

func TestClearLeavesWhatIsOthers(t *testing.T) {
	mem, space := memlocker.New(), keyspace.New("part/")
	part := space.In(mem.Peer())
	for _, l := range []locker.Locker{mem, part} {
		if err := l.Open(deaf{}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close(context.WithoutCancel(t.Context())) }()
	}
	claim := func(l locker.Locker, key string, limit int) {
		c := &locker.Claim{
			Key: key, Owner: strings.Repeat(string(rune('a'+limit)), locker.OwnerLen), TTL: time.Minute, Limit: limit,
		}
		if a, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil || !a.Acquired {
			t.Fatalf("Acquire: %+v, %v", a, err)
		}
	}
	claim(mem, "k", 0)
	claim(part, "k", 0)
	claim(part, "shared", 2)
	if err := space.Clear(t.Context(), mem); err != nil {
		t.Fatal(err)
	}
	var left []string
	for k, err := range mem.List(t.Context()) {
		left = append(left, k.Key)
		if err != nil {
			t.Error(err)
		}
	}
	if len(left) != 1 || left[0] != "k" {
		t.Errorf("left are %q, want k alone", left)
	}
}

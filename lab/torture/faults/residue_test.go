package faults

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
)

// Nothing may be left behind. This file has the check at the end of all rows,
// and the faults that it must find.

// begin lets t run in parallel with the other rows. It fails t if a goroutine
// is left when all its cleanups have run. Call it first.
func begin(t *testing.T) {
	t.Helper()
	t.Parallel()
	pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels(rig.Label, t.Name())))
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.WithoutCancel(t.Context())) // this one is no leak
		if left := settled(func() []string { return rig.Goroutines(t.Name()) }); len(left) > 0 {
			t.Errorf("goroutines are left, %d kinds:\n%s", len(left), strings.Join(left, "\n\n"))
		}
	})
}

// settled calls find until it returns nothing, for at most a minute. It returns
// the last leftovers.
func settled(find func() []string) []string {
	end := time.Now().Add(testguard.Patience)
	for {
		left := find()
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// serve starts a server for t. It fails t if keys without a TTL or connections
// are left on it in the end. Clients that t makes afterwards are closed before
// that check. A server that t has ended is not checked.
func serve(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	s := redistest.Start(t, args...)
	leavesNothing(t, s.Addr)
	return s
}

func leavesNothing(t *testing.T, addr string) {
	t.Helper()
	t.Cleanup(func() {
		rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1})
		defer func() { _ = rdb.Close() }()
		for _, left := range settled(func() []string { return residue(rdb) }) {
			t.Errorf("left on the server: %s", left)
		}
	})
}

// residue returns the leftovers on a server, except rdb's own connection, which
// must be one. It returns nothing if the server does not answer.
func residue(rdb *redis.Client) (left []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	id, err := rdb.ClientID(ctx).Result()
	if err != nil {
		return nil
	}
	for keys := rdb.Scan(ctx, 0, "", 1000).Iterator(); keys.Next(ctx); {
		if ttl := rdb.PTTL(ctx, keys.Val()).Val(); ttl == -1 {
			left = append(left, "the key "+keys.Val()+" without a TTL")
		}
	}
	for line := range strings.Lines(rdb.ClientList(ctx).Val()) {
		own := strings.HasPrefix(line, fmt.Sprintf("id=%d ", id))
		peer := strings.Contains(line, " flags=S") || strings.Contains(line, " flags=M") // a replica, or the primary
		if !own && !peer {
			left = append(left, "the connection "+strings.TrimSpace(line))
		}
	}
	return left
}

func TestTheLookAtResidueFindsAKeyAndAConnection(t *testing.T) {
	s := redistest.Start(t)
	own := redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: 1})
	defer func() { _ = own.Close() }()
	if left := residue(own); len(left) > 0 {
		t.Fatalf("on an empty server: %q", left)
	}
	own.Set(t.Context(), "mortal", "x", time.Minute)
	if left := residue(own); len(left) > 0 {
		t.Errorf("a key with a TTL: %q", left)
	}
	own.Set(t.Context(), "immortal", "x", 0)
	if left := residue(own); len(left) != 1 || !strings.Contains(left[0], "immortal") {
		t.Errorf("with a key without a TTL: %q", left)
	}
	own.Del(t.Context(), "immortal")
	other := redistest.Client(t, s.Addr)
	other.Ping(t.Context())
	if left := residue(own); len(left) != 1 || !strings.Contains(left[0], "connection") {
		t.Errorf("with another connection: %q", left)
	}
}

func TestTheLookAtGoroutinesFindsThoseOfATest(t *testing.T) {
	stop, done := make(chan struct{}), make(chan struct{})
	started := make(chan struct{})
	pprof.Do(t.Context(), pprof.Labels(rig.Label, t.Name()), func(context.Context) {
		go func() { // ends with stop
			defer close(done)
			go func() { close(started); <-stop }()
			<-stop
		}()
	})
	<-started
	if n := rig.Running(t.Name()); n != 2 {
		t.Errorf("found %d goroutines, want the one and the one that it started", n)
	}
	close(stop)
	<-done
	if left := settled(func() []string { return rig.Goroutines(t.Name()) }); len(left) > 0 {
		t.Errorf("found what has ended: %q", left)
	}
}

package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParserFindsCommandsInPiecesOfAnySize(t *testing.T) {
	stream := "*1\r\n$4\r\nping\r\n*3\r\n$3\r\nSet\r\n$2\r\nk\n\r\n$0\r\n\r\n*2\r\n$3\r\nget\r\n$1\r\nk\r\n"
	for size := 1; size <= len(stream); size++ {
		var p parser
		var got []string
		for at := 0; at < len(stream); at += size {
			got = append(got, p.feed([]byte(stream[at:min(at+size, len(stream))]))...)
		}
		if fmt.Sprint(got) != "[PING SET GET]" || len(p.rest) != 0 {
			t.Fatalf("pieces of %d: %v, rest %q", size, got, p.rest)
		}
	}
}

func TestProxyCountsCommandsAndRoundTrips(t *testing.T) {
	p := NewProxy(t, Start(t).Addr)
	rdb := Client(t, p.Addr)
	ctx := t.Context()
	rdb.Ping(ctx)
	// has a pool of its own in newer versions
	_, _ = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { pipe.Ping(ctx); return nil })
	p.Reset()
	for range 3 {
		if err := rdb.Get(ctx, "k").Err(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	pipe := rdb.Pipeline()
	for range 10 {
		pipe.Set(ctx, "k", "v", 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	if c := p.Commands(); c["GET"] != 3 || c["SET"] != 10 || len(c) != 2 {
		t.Errorf("commands: %v", c)
	}
	if n := p.RoundTrips(); n != 4 {
		t.Errorf("%d round trips, want 3 + 1", n)
	}
}

func TestProxyFaults(t *testing.T) {
	server := Start(t)
	p, direct := NewProxy(t, server.Addr), Client(t, server.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	done := 0 // increments that reach the server
	counted := func() bool { n, _ := direct.Get(t.Context(), "n").Int(); return n == done }
	warm := func() { // so that the fault hits the command, not the handshake
		t.Helper()
		done++
		if err := rdb.Incr(t.Context(), "n").Err(); err != nil || !counted() {
			t.Fatalf("%v, counted: %v", err, counted())
		}
	}
	// fails sends an increment, and gives it up a moment after it has arrived.
	fails := func(fault string, arrived func() bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		answer := make(chan error, 1)
		go func() { answer <- rdb.Incr(ctx, "n").Err() }() // ends with ctx
		for !arrived() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		if cancel(); <-answer == nil {
			t.Errorf("%s: no error", fault)
		}
	}
	for _, c := range []struct {
		fault        string
		begin, end   func()
		reachesRedis bool
	}{
		{"reply killed", p.KillNextReply, func() {}, true},
		{"reply dropped", func() { p.DropDown(true) }, func() { p.DropDown(false) }, true},
		{"request dropped", func() { p.DropUp(true) }, func() { p.DropUp(false) }, false},
		{"reply delayed", func() { p.DelayReplies(time.Minute) }, func() { p.DelayReplies(0); p.CutAll() }, true},
	} {
		warm()
		p.Reset()
		c.begin()
		arrived := func() bool { return p.Commands()["INCR"] == 1 }
		if c.reachesRedis {
			done++
			arrived = counted
		}
		fails(c.fault, arrived)
		c.end()
	}
	warm()
}

func TestStoppedServerAnswersOnlyOnceItGoesOn(t *testing.T) {
	s := Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	rdb.Ping(t.Context())
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := rdb.Set(ctx, "k", "v", 0).Err(); err == nil {
		t.Error("a stopped server answered")
	}
	s.Cont()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestMiniredisKeepsTheTimeOfItsBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := Miniredis(t)
		rdb.Set(t.Context(), "k", "v", time.Hour)
		time.Sleep(time.Hour - time.Millisecond)
		if n := rdb.Exists(t.Context(), "k").Val(); n != 1 {
			t.Error("the key ended early")
		}
		time.Sleep(2 * time.Millisecond)
		if n := rdb.Exists(t.Context(), "k").Val(); n != 0 {
			t.Error("the key outlived its TTL")
		}
	})
}

func TestMiniredisTakesLongPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := Miniredis(t)
		pipe := rdb.Pipeline()
		for range 10_000 {
			pipe.Incr(t.Context(), "n")
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, _ := rdb.Get(t.Context(), "n").Int(); n != 10_000 {
			t.Errorf("%d of 10,000 commands arrived", n)
		}
	})
}

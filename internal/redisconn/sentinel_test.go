package redisconn

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// contacted returns no sentinels, which go-redis has contacted.
func contacted() *sentinels {
	s := newSentinels(redis.UniversalOptions{}, newLogins("", nil, &Trip{}))
	s.contact.Do(s.endContact)
	return s
}

// go-redis may have the word of one sentinel while the others do not vote in
// time. That does not bring back a server that was not elected.
func TestAConnectionWithoutVotesIsLeftOnceAnotherServerIsElected(t *testing.T) {
	server, client := net.Pipe()
	defer func() { _ = server.Close() }()
	go func() { _, _ = io.Copy(io.Discard, server) }() // ends with server
	w := &primaryTracker{sentinels: contacted()}
	dial := w.DialHook(func(context.Context, string, string) (net.Conn, error) { return client, nil })
	conn, err := dial(t.Context(), "tcp", sentinelAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Errorf("before any election: %v", err)
	}
	w.note(client.RemoteAddr().String(), time.Now())
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Errorf("to the elected server: %v", err)
	}
	w.note("192.0.2.1:6379", time.Now())
	if _, err := conn.Write([]byte("x")); !errors.Is(err, errLeft) {
		t.Errorf("to another server than the elected one: %v, want errLeft", err)
	}
}

// Processes leave an old primary one by one. One that used the new primary before
// the others have left could hold a key beside them.
func TestNothingIsSentToANewPrimaryUntilAllHaveLeftTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		defer func() { _ = server.Close() }()
		w := &primaryTracker{sentinels: contacted()}
		dial := w.DialHook(func(context.Context, string, string) (net.Conn, error) { return client, nil })
		for _, c := range []struct {
			elected string
			after   time.Duration // since the election
			waits   time.Duration
		}{
			{"192.0.2.1:6379", 0, 0}, // the first: there was none before
			{"192.0.2.2:6379", 0, settle},
			{"192.0.2.2:6379", 0, 0},
			{"192.0.2.1:6379", settle - 1, 1},
		} {
			w.note(c.elected, time.Now())
			time.Sleep(c.after)
			w.note(c.elected, time.Now()) // each look of the process says so
			start := time.Now()
			if _, err := dial(t.Context(), "tcp", sentinelAddr); err != nil || time.Since(start) != c.waits {
				t.Errorf("%s: a dial took %v, %v, want %v", c.elected, time.Since(start), err, c.waits)
			}
		}
		w.note("192.0.2.3:6379", time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), settle/2)
		defer cancel()
		if _, err := dial(ctx, "tcp", sentinelAddr); !errors.Is(err, errSettling) {
			t.Errorf("a dial that ends before: %v", err)
		}
	})
}

// A dial to a primary that was replaced meanwhile may take long.
func TestAnElectionThatBeganEarlierBringsBackNoPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		defer func() { _ = server.Close() }()
		go func() { _, _ = io.Copy(io.Discard, server) }() // ends with server
		w := &primaryTracker{}
		dial := w.DialHook(func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Second)
			return client, nil
		})
		go func() {
			time.Sleep(time.Second / 2)
			w.note("192.0.2.2:6379", time.Now())
		}()
		w.note(client.RemoteAddr().String(), time.Now())
		if _, err := dial(t.Context(), "tcp", sentinelAddr); err != nil {
			t.Fatal(err)
		}
		if at := w.at.Load().addr; at != "192.0.2.2:6379" {
			t.Errorf("the primary is %s, and was elected before the other", at)
		}
	})
}

// A server may become the primary again while the pool has connections of its
// first time.
func TestAConnectionOfAnEarlierElectionIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		defer func() { _ = server.Close() }()
		go func() { _, _ = io.Copy(io.Discard, server) }() // ends with server
		w := &primaryTracker{}
		w.note("192.0.2.1:6379", time.Now())
		conn := w.bind(client, "192.0.2.1:6379")
		w.note("192.0.2.2:6379", time.Now())
		w.note("192.0.2.1:6379", time.Now())
		for _, after := range []time.Duration{0, settle} {
			time.Sleep(after)
			if _, err := conn.Write([]byte("x")); !errors.Is(err, errLeft) {
				t.Errorf("%v after the server was elected again: %v, want errLeft", after, err)
			}
		}
		if _, err := w.bind(client, "192.0.2.1:6379").Write([]byte("x")); err != nil {
			t.Errorf("a new connection: %v", err)
		}
	})
}

// The pause is the process's own, and no silence of the server.
func TestThePauseAfterAnElectionIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &primaryTracker{}
		w.note("192.0.2.1:6379", time.Now())
		w.note("192.0.2.2:6379", time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), settle/2)
		defer cancel()
		err := w.settled(ctx)
		var timeout interface{ Timeout() bool }
		if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("got %v, want an error that is no timeout", err)
		}
	})
}

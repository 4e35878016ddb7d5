package redislocker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Law 3, of requests that queue.

func TestALookWithoutAnAnswerMayHaveQueuedAndIsTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, l *redislocker.Locker, w *wire, has func(string) bool) {
		t.Helper()
		owner, c := claim("k"), fenced("k")
		mustAcquire(t, l, owner)
		for _, how := range []locker.Try{{Held: true}, {Wait: true, Held: true}, {Wait: true, Queued: true}} {
			w.set(loseReply)
			a, err := l.Acquire(t.Context(), c, how)
			w.set(nil)
			if !errors.Is(err, locker.ErrUnavailable) || a.Queued != how.Wait {
				t.Errorf("%+v: %+v, %v, want ErrUnavailable, and Queued where it may be", how, a, err)
			}
		}
		_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
		if !has("k") {
			t.Fatal("the owner's key is gone")
		}
		release(t, l, owner, claim("k"), locker.Released{})
	})
}

// A Forget without an answer may arrive when the next one has succeeded, and the
// function has run again.
func TestALateForgetLeavesALaterRecord(t *testing.T) {
	for n := range 3 { // requests before the one that is late
		inBubble(t, func(t *testing.T, l *redislocker.Locker, w *wire, _ func(string) bool) {
			t.Helper()
			keeps := func(value string) {
				c := claim("k")
				c.Recall = true
				mustAcquire(t, l, c)
				end := locker.End{Record: locker.Record{Value: value, TTL: time.Hour}}
				if _, err := l.Release(t.Context(), c, end); err != nil {
					t.Fatal(err)
				}
			}
			keeps("old")
			var late func() error
			w.mu.Lock()
			w.skip, w.fault = n, func(deliver func() error) error { late = deliver; return loseRequest(nil) }
			w.mu.Unlock()
			_, err := l.Forget(t.Context(), "k")
			w.set(nil)
			if late == nil {
				return // it has fewer requests
			}
			found, again := l.Forget(t.Context(), "k")
			if !errors.Is(err, locker.ErrUnavailable) || !found || again != nil {
				t.Fatalf("Forget: %v, and then %v, %v", err, found, again)
			}
			keeps("new")
			_ = late()
			c := claim("k")
			c.Recall = true
			if a, err := l.Acquire(t.Context(), c, locker.Try{}); a.Record != "new" || err != nil {
				t.Errorf("late by request %d: %+v, %v, want the later record", n, a, err)
			}
		})
	}
}

// Law 11. A release ends what a late try took, and does not keep again what
// was kept and forgotten.
func TestALateTryBringsBackNoForgottenRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, l *redislocker.Locker, _ *wire, has func(string) bool) {
		t.Helper()
		c := recalls("k")
		mustAcquire(t, l, c)
		end := locker.End{Record: locker.Record{Value: "old", TTL: time.Hour}}
		if _, err := l.Release(t.Context(), c, end); err != nil {
			t.Fatal(err)
		}
		if found, err := l.Forget(t.Context(), "k"); !found || err != nil {
			t.Fatal(found, err)
		}
		mustAcquire(t, l, c) // as a try that arrives late
		_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
		if has("k") {
			t.Error("the key is left")
		}
		mustAcquire(t, l, recalls("k"))
	})
}

// A SET with NX would find the key held, by the claim itself.
func TestAKeyOfSeveralWithoutAnAnswerIsAskedForAsItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, l *redislocker.Locker, w *wire, _ func(string) bool) {
		t.Helper()
		cs := []*locker.Claim{claim("a"), claim("b")}
		known := claim("c") // so are the scripts
		if _, held, err := l.AcquireAll(t.Context(), []*locker.Claim{known}, false); held != 1 || err != nil {
			t.Fatal(held, err)
		}
		mustAcquire(t, l, known)
		w.set(loseReply)
		if _, _, err := l.AcquireAll(t.Context(), cs, false); !errors.Is(err, locker.ErrUnavailable) {
			t.Fatal(err)
		}
		w.set(nil)
		for _, c := range cs {
			before := w.requests()
			mustAcquire(t, l, c)
			if n := w.requests() - before; n != 1 {
				t.Errorf("a second try took %d requests, want 1", n)
			}
		}
	})
}

package redislocker_test

import (
	"errors"
	"testing"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Law 10, of requests that queue.

func TestALookWithoutAnAnswerMayHaveQueuedAndAbandonTakesItBack(t *testing.T) {
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
		l.Abandon(c, false)
		if !has("k") { // waits until the janitor is done
			t.Fatal("the owner's key is gone")
		}
		release(t, l, owner, claim("k"), locker.Released{})
	})
}

func TestAReleaseWithoutAnAnswerMayHaveQueuedAndAbandonTakesItBack(t *testing.T) {
	inBubble(t, func(t *testing.T, l *redislocker.Locker, w *wire, has func(string) bool) {
		t.Helper()
		owner, second, next := claim("k"), claim("k"), claim("k")
		mustAcquire(t, l, owner)
		queue(t, l, second)
		w.set(loseReply)
		_, err := l.Release(t.Context(), owner, next)
		w.set(nil)
		if !errors.Is(err, locker.ErrUnavailable) {
			t.Fatal(err)
		}
		l.Abandon(next, false)
		l.Abandon(owner, true)
		l.Abandon(second, false)
		if has("k") {
			t.Error("the key is left, or went to one that was abandoned")
		}
	})
}

package watermilllock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	watermilllock "github.com/go-lockguard/guard/jobs/watermill"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestAKeyIsADuplicateForItsTimeInAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Minute
		var log bytes.Buffer
		store := memlocker.New()
		var repos []middleware.ExpiringKeyRepository
		var guards []*guard.Guard
		for _, l := range []guard.Locker{store, store.Peer()} {
			g, err := guard.New(l, guard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close(context.WithoutCancel(t.Context()))
			guards = append(guards, g)
			repos = append(repos, watermilllock.NewExpiringKeyRepository(g, ttl))
		}
		check := func(when string, r middleware.ExpiringKeyRepository, want bool) {
			t.Helper()
			if got, err := r.IsDuplicate(t.Context(), "\x00\xff%!"); err != nil || got != want {
				t.Errorf("%s: a duplicate: %t, %v, want %t", when, got, err, want)
			}
		}
		check("at first", repos[0], false)
		check("at once", repos[0], true)
		check("in another process", repos[1], true)
		time.Sleep(ttl - 10*time.Second)
		check("before its end", repos[0], true)
		check("before its end, in another process", repos[1], true)
		time.Sleep(11 * time.Second)
		check("after its end", repos[1], false)
		check("after its end, in another process", repos[0], true)
		time.Sleep(2 * ttl)

		check("once more", repos[0], false)
		if err := guards[0].Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(ttl - 10*time.Second)
		check("its process has ended", repos[1], true)
		time.Sleep(11 * time.Second)
		check("at its end", repos[1], false)
		if log.Len() > 0 {
			t.Errorf("the log:\n%s", &log)
		}
	})
}

func TestWhatNobodyCanTellIsNoDuplicate(t *testing.T) {
	g := guardtest.New(t, quiet)
	r := watermilllock.NewExpiringKeyRepository(g.Guard, time.Minute)
	mend := g.Break()
	if duplicate, err := r.IsDuplicate(t.Context(), "k"); duplicate || !errors.Is(err, guard.ErrUnavailable) {
		t.Errorf("no answer: got %t, %v", duplicate, err)
	}
	mend()
	if duplicate, err := r.IsDuplicate(t.Context(), "k"); duplicate || err != nil {
		t.Errorf("at its return: got %t, %v", duplicate, err)
	}
	if duplicate, err := r.IsDuplicate(t.Context(), ""); duplicate || !errors.Is(err, guard.ErrInvalidKey) {
		t.Errorf("no key: got %t, %v", duplicate, err)
	}
}

func TestADeduplicatorAfterTheKeyLosesNothingThatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, quiet)
		once := &middleware.Deduplicator{
			KeyFactory: middleware.NewMessageHasherSHA256(1 << 20),
			Repository: watermilllock.NewExpiringKeyRepository(g.Guard, time.Hour),
			Timeout:    time.Second,
		}
		ran := 0
		h := watermilllock.Key(g.Guard, key)(once.Middleware(func(*message.Message) ([]*message.Message, error) {
			ran++
			return nil, nil
		}))
		msg := messageOf(t.Context(), "7")
		release := g.Hold("order:7")
		if _, err := h(msg); err == nil {
			t.Error("not refused")
		}
		release()
		for range 3 {
			if _, err := h(msg); err != nil {
				t.Error(err)
			}
		}
		if ran != 1 {
			t.Errorf("it ran %d times", ran)
		}
	})
}

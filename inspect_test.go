package guard_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// plain returns a bench without a spy, which is no inspector.
func plain(t *testing.T, opts ...guard.Option) *bench {
	t.Helper()
	mem := memlocker.New()
	return &bench{Guard: newGuard(t, mem, opts...), mem: mem, other: newGuard(t, mem.Peer(), opts...)}
}

// listed returns what g lists, by key.
func listed(t *testing.T, g *guard.Guard) map[string]guard.KeyState {
	t.Helper()
	all := map[string]guard.KeyState{}
	for s, err := range g.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all[s.Key] = s
	}
	return all
}

func TestInspect_TellsWhoHoldsAndWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := plain(t, guard.WithName("stock"))
		if s := must(b.Inspect(t.Context(), "k")); s.Held || s.Key != "k" {
			t.Errorf("a free key: %+v", s)
		}
		l := must(b.Acquire(t.Context(), "k"))
		began := time.Now()
		waited := make(chan error, 1)
		go func() { waited <- b.other.With(guard.WithName("waits")).Do(t.Context(), "k", nop) }()
		time.Sleep(time.Second)
		synctest.Wait()

		s := must(b.other.Inspect(t.Context(), "k"))
		if !s.Held || s.Holder.Name != "stock" || s.Holder.PID == 0 || !s.Holder.Since.Equal(began) ||
			s.Remaining != 9*time.Second {
			t.Errorf("held by %+v for %v", s.Holder, s.Remaining)
		}
		if s.Waiting != 1 || len(s.Waiters) != 1 || s.Waiters[0].Holder.Name != "waits" {
			t.Errorf("waiting: %+v", s.Waiters)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wantErr(t, <-waited)
	})
}

func TestList_NamesKeysAsTheVerbsTakeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := plain(t)
		awkward := []string{"plain", guard.Key("stock", "a:b%"), "{braces}\n"}
		long := strings.Repeat("x", 300)
		var hash string
		_ = b.DoAll(t.Context(), append(awkward, long), func(context.Context) error {
			all := listed(t, b.other)
			for _, key := range awkward {
				if !all[key].Held {
					t.Errorf("%q is not listed: %v", key, all)
				}
				delete(all, key)
			}
			for key := range all {
				hash = key
			}
			if len(all) != 1 || !strings.HasPrefix(hash, "%sha256:") {
				t.Errorf("besides: %v, want one hash", all)
			}
			byHash, byKey := must(b.Inspect(t.Context(), hash)), must(b.Inspect(t.Context(), long))
			if !byHash.Held || byHash.Owner != byKey.Owner {
				t.Errorf("by hash: %+v, by key: %+v", byHash, byKey)
			}
			return nil
		})
		if all := listed(t, b.Guard); len(all) != 0 {
			t.Errorf("left: %v", all)
		}
	})
}

func TestForceRelease_EndsTheHoldersContextAndServesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := plain(t)
		hung := must(b.Acquire(t.Context(), "k"))
		next := make(chan error, 1)
		go func() { next <- b.other.Do(t.Context(), "k", nop) }()
		synctest.Wait()

		s := must(b.other.Inspect(t.Context(), "k"))
		wrong := strings.Repeat("A", locker.OwnerLen)
		wantErr(t, b.other.ForceRelease(t.Context(), "k", wrong), guard.ErrLeaseLost)
		wantErr(t, b.other.ForceRelease(t.Context(), "k", "A"), guard.ErrInvalidOption)
		synctest.Wait()
		if hung.Err() != nil {
			t.Fatal("a wrong owner took the lease:", hung.Err())
		}
		start := time.Now()
		wantErr(t, b.other.ForceRelease(t.Context(), "k", s.Owner))
		<-hung.Context().Done()
		wantErr(t, context.Cause(hung.Context()), guard.ErrLeaseLost)
		if d := time.Since(start); d > 50*time.Millisecond {
			t.Errorf("the holder heard after %v, want a message", d)
		}
		wantErr(t, <-next)
		wantErr(t, hung.Release(t.Context()), guard.ErrLeaseLost)
	})
}

// unrevoked loses the messages of forced releases.
type unrevoked struct{ guard.Locker }

func (d unrevoked) Open(w locker.Waker) error { return d.Locker.Open(unrevoking{w}) }

type unrevoking struct{ locker.Waker }

func (unrevoking) Revoked(string, string) {}

func TestForceRelease_EndsTheHoldersContextWithinARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		g, operator := newGuard(t, unrevoked{mem}), newGuard(t, mem.Peer())
		hung := must(g.Acquire(t.Context(), "k"))
		start := time.Now()
		wantErr(t, operator.ForceRelease(t.Context(), "k", must(operator.Inspect(t.Context(), "k")).Owner))
		<-hung.Context().Done()
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("the holder heard after %v, want a third of the TTL", d)
		}
		_ = hung.Release(t.Context())
	})
}

func TestInspect_SaysWhatItCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		g := newGuard(t, mem)
		blind := newGuard(t, testguard.Plain{Locker: memlocker.New()})
		for name, c := range map[string]struct {
			g    *guard.Guard
			key  string
			want error
		}{
			"no inspector": {blind, "k", errors.ErrUnsupported},
			"no key":       {g, "", guard.ErrInvalidKey},
			"no default":   {nil, "k", guard.ErrNoDefault},
		} {
			_, err := c.g.Inspect(t.Context(), c.key)
			if !errors.Is(err, c.want) {
				t.Errorf("%s: Inspect: %v", name, err)
			}
			if err := c.g.ForceRelease(t.Context(), c.key, "x"); !errors.Is(err, c.want) {
				t.Errorf("%s: ForceRelease: %v", name, err)
			}
		}
		mend := mem.Break()
		_, err := g.Inspect(t.Context(), "k")
		wantErr(t, err, guard.ErrUnavailable)
		for _, err := range g.List(t.Context()) {
			wantErr(t, err, guard.ErrUnavailable)
		}
		mend()
		wantErr(t, g.Close(t.Context()))
		_, err = g.Inspect(t.Context(), "k")
		wantErr(t, err, guard.ErrClosed)
	})
}

// A refusing store answers operators with errors of its own.
type refusing struct {
	*memlocker.Locker

	err error
}

func (r refusing) Inspect(context.Context, string) (guard.KeyState, error) {
	return guard.KeyState{}, r.err
}

func (r refusing) List(context.Context) iter.Seq2[guard.KeyState, error] {
	return func(yield func(guard.KeyState, error) bool) {
		_ = yield(guard.KeyState{Key: "theirs"}, r.err) && yield(guard.KeyState{}, r.err)
	}
}

func (r refusing) ForceRelease(context.Context, string, string) error { return r.err }
func (r refusing) Forget(context.Context, string) (bool, error)       { return false, r.err }

func TestInspect_WrapsErrorsOfTheStore(t *testing.T) {
	for _, c := range []struct{ store, want error }{
		{errors.New("NOPERM"), guard.ErrUnavailable},
		{context.DeadlineExceeded, guard.ErrUnavailable},
		{fmt.Errorf("%w: of another owner", guard.ErrLeaseLost), guard.ErrLeaseLost},
		{fmt.Errorf("%w: no owner id", guard.ErrInvalidOption), guard.ErrInvalidOption},
		{guard.ErrClosed, guard.ErrClosed},
		{errors.ErrUnsupported, errors.ErrUnsupported},
	} {
		g := newGuard(t, refusing{memlocker.New(), c.store})
		check := func(what string, err error) {
			t.Helper()
			unavailable := errors.Is(c.want, guard.ErrUnavailable)
			if !errors.Is(err, c.want) || !errors.Is(err, c.store) ||
				errors.Is(err, guard.ErrUnavailable) != unavailable {
				t.Errorf("%s of a store that says %v: %v", what, c.store, err)
			}
		}
		_, err := g.Inspect(t.Context(), key)
		check("Inspect", err)
		n := 0
		for s, err := range g.List(t.Context()) {
			check("List at "+s.Key, err)
			n++
		}
		if n != 2 {
			t.Errorf("%d errors of a list, want that of a key and that of its end", n)
		}
		check("ForceRelease", g.ForceRelease(t.Context(), key, "x"))
		_, err = g.Forget(t.Context(), key)
		check("Forget", err)
	}
}

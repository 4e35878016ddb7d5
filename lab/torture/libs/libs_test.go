package libs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, lib *libs.Library, s libs.Setup) libs.Locker {
	t.Helper()
	l, err := lib.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testguard.Patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return l
}

func acquire(t *testing.T, l libs.Locker, key string) libs.Lease {
	t.Helper()
	held, err := l.Acquire(t.Context(), key, testguard.Patience)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func setup(t *testing.T) libs.Setup {
	t.Helper()
	t.Parallel()
	return libs.Setup{Addrs: []string{redistest.Start(t).Addr}, TTL: 4 * time.Second}
}

func TestALockExcludesOthersUntilItsRelease(t *testing.T) {
	t.Parallel()
	for _, lib := range libs.All() {
		t.Run(lib.Name, func(t *testing.T) {
			s := setup(t)
			a, b := open(t, lib, s), open(t, lib, s)
			held := acquire(t, a, "k")
			for _, wait := range []time.Duration{0, 200 * time.Millisecond} {
				if _, err := b.Acquire(t.Context(), "k", wait); err == nil {
					t.Fatalf("another got it too, waiting %v", wait)
				}
			}
			time.Sleep(3 * s.TTL / 2) // renewed or not
			if !held.Held() {
				t.Error("it was lost")
			}
			if _, err := b.Acquire(t.Context(), "k", 0); err == nil {
				t.Error("it was not renewed")
			}
			if err := held.Release(t.Context()); err != nil {
				t.Error(err)
			}
			next := acquire(t, b, "k")
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTokensRiseWhereThereAreAny(t *testing.T) {
	t.Parallel()
	for _, lib := range libs.All() {
		t.Run(lib.Name, func(t *testing.T) {
			s := setup(t)
			l := open(t, lib, s)
			var last uint64
			for range 3 {
				held := acquire(t, l, "k")
				token, err := held.Token(t.Context())
				switch {
				case !lib.Tokens && !errors.Is(err, libs.ErrNoToken):
					t.Errorf("token %d, %v", token, err)
				case lib.Tokens && (err != nil || token <= last):
					t.Errorf("token %d after %d, %v", token, last, err)
				}
				last = token
				_ = held.Release(t.Context())
			}
		})
	}
}

func TestTheHolderOfAKeyThatHasGoneIsToldByTheNextRenewal(t *testing.T) {
	t.Parallel()
	for _, lib := range libs.All() {
		t.Run(lib.Name, func(t *testing.T) {
			s := setup(t)
			rdb := redistest.Client(t, s.Addrs[0])
			l := open(t, lib, s)
			held := acquire(t, l, "k")
			if n := rdb.Del(t.Context(), lib.Keys("k")...).Val(); n != 1 { // one that is held alone has no crowd
				t.Errorf("there were %d of the keys %q, want 1", n, lib.Keys("k"))
			}
			select {
			case <-held.Lost():
			case <-time.After(testguard.Patience):
				t.Error("nobody was told")
			}
			if held.Held() {
				t.Error("it is held")
			}
			_ = held.Release(t.Context())
		})
	}
}

func TestALeaseOutlivesTheContextOfItsWait(t *testing.T) {
	t.Parallel()
	for _, lib := range libs.All() {
		t.Run(lib.Name, func(t *testing.T) {
			s := setup(t)
			ctx, cancel := context.WithCancel(t.Context())
			held, err := open(t, lib, s).Acquire(ctx, "k", testguard.Patience)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			time.Sleep(100 * time.Millisecond)
			if !held.Held() {
				t.Error("it ended with the context")
			}
			_ = held.Release(t.Context())
		})
	}
}

func TestWithoutRenewalALeaseEndsByItself(t *testing.T) {
	t.Parallel()
	for _, lib := range libs.All() {
		t.Run(lib.Name, func(t *testing.T) {
			s := setup(t)
			if lib.Name == "rueidislock" {
				return // it always renews
			}
			s.TTL, s.NoRenewal = time.Second, true
			l := open(t, lib, s)
			held := acquire(t, l, "k")
			next := acquire(t, l, "k")
			if told := !held.Held(); told != (lib.Name != "redislock") {
				t.Errorf("told: %v", told)
			}
			_ = held.Release(t.Context())
			_ = next.Release(t.Context())
		})
	}
}

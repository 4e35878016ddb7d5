package memlocker

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/locker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReleasedKeysLeaveNothing(t *testing.T) {
	w := peers(t, "a", "b")
	for i := range 1000 {
		c := claim("a", "k"+strconv.Itoa(i))
		w.acquire(0, c)
		w.wait(1, claim("b", c.Key))
		w.release(0, c, nil, 1)
		w.release(1, claim("b", c.Key), nil, 0)
	}
	if n := len(w.ls[0].store.keys); n != 0 {
		t.Fatalf("%d entries for keys that nobody holds or waits for", n)
	}
}

func TestExpiredKeysAreForgottenByTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := peers(t, "a", "b")
		for i := range 1000 {
			c := claim("a", "k"+strconv.Itoa(i))
			w.acquire(0, c)
			if i%2 == 0 {
				w.wait(1, claim("b", c.Key))
			}
			if i%3 == 0 {
				_, _ = w.ls[0].Release(t.Context(), c, locker.End{Queued: true})
			}
		}
		time.Sleep(10 * time.Second)
		if _, err := locker.Findings(w.ls[1].Check(t.Context(), time.Second)); err != nil {
			t.Fatal(err)
		}
		if n := len(w.ls[0].store.keys); n != 0 {
			t.Fatalf("%d entries for expired keys", n)
		}
	})
}

func TestLostKeyIsGoneAndTokensKeepRising(t *testing.T) {
	w := peers(t, "a", "b")
	c, next := claim("a", "k"), claim("b", "k")
	c.Fencing, next.Fencing = true, true
	before := w.acquire(0, c).Token
	if !w.ls[1].Lose("k") {
		t.Error("Lose of a held key: false")
	}
	if w.ls[1].Lose("k") || w.ls[1].Lose("never") {
		t.Error("Lose of a key that nobody holds: true")
	}
	if err := w.renew(0, c); !errors.Is(err, locker.ErrLeaseLost) {
		t.Errorf("Renew of a lost key: %v, want ErrLeaseLost", err)
	}
	if after := w.acquire(1, next).Token; after < before+locker.FenceBlock {
		t.Errorf("Acquire of a lost key: token %d, want at least %d", after, before+locker.FenceBlock)
	}
}

func TestBrokenStoreAnswersNobodyAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := peers(t, "a", "b")
		c := claim("a", "k")
		w.acquire(0, c)
		mendFirst, mend := w.ls[1].Break(), w.ls[1].Break()
		mendFirst()
		mendFirst()

		_, acquired := w.ls[1].Acquire(t.Context(), claim("b", "free"), locker.Try{Wait: true})
		_, fenced := w.ls[0].Fence(t.Context(), c)
		_, released := w.ls[0].Release(t.Context(), c, locker.End{})
		for _, err := range []error{acquired, fenced, released, w.renew(0, c), w.ls[0].Check(t.Context(), c.TTL)} {
			if !errors.Is(err, locker.ErrUnavailable) {
				t.Errorf("%v, want ErrUnavailable", err)
			}
		}

		mend()
		w.acquire(0, claim("a", "free"))
		w.try(1, claim("b", "k"), locker.Try{})
		time.Sleep(10 * time.Second) // nothing was renewed
		w.acquire(1, claim("b", "k"))
	})
}

func BenchmarkAcquireRelease(b *testing.B) {
	l := New()
	if err := l.Open(hears{f: func() {}}); err != nil {
		b.Fatal(err)
	}
	c := claim("a", "k")
	ctx := context.WithoutCancel(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Acquire(ctx, c, locker.Try{}); err != nil {
			b.Fatal(err)
		}
		if _, err := l.Release(ctx, c, locker.End{}); err != nil {
			b.Fatal(err)
		}
	}
}

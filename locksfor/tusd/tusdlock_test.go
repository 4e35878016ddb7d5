package tusdlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redislocker"
	tusdlock "github.com/go-lockguard/guard/locksfor/tusd"
)

var key = guard.Key("tusd", "one")

// lock takes the lock of an upload as tusd does, whose ctx ends at once.
func lock(t *testing.T, l *tusdlock.Locker, requestUnlock func()) (handler.Lock, error) {
	t.Helper()
	one, err := l.NewLock("one")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return one, one.Lock(ctx, requestUnlock)
}

func TestALockIsHeldUntilItsUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		composer := handler.NewStoreComposer()
		l := tusdlock.New(g.Guard)
		if l.UseIn(composer); composer.Locker != l {
			t.Error("the composer has another locker")
		}
		never := func() { t.Error("requestUnlock was called") }
		var asked atomic.Int32
		one, err := lock(t, l, func() { asked.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		if time.Sleep(10 * time.Minute); asked.Load() > 0 { // an upload
			t.Error("requestUnlock was called, and nobody waits")
		}
		start := time.Now()
		if _, err := lock(t, l, never); !errors.Is(err, handler.ErrLockTimeout) {
			t.Errorf("the lock of a held upload: %v", err)
		}
		if waited := time.Since(start); waited != 20*time.Second {
			t.Errorf("waited for %v", waited)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("requestUnlock was called %d times for one who waits", n)
		}
		if err := one.Unlock(); err != nil {
			t.Error(err)
		}
		two, err := lock(t, l, never)
		if err != nil {
			t.Fatal(err)
		}
		if err := two.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestOnRedisTheNextRequestInterruptsTheUpload(t *testing.T) {
	server := redistest.Start(t)
	locker := func() *tusdlock.Locker {
		g := testguard.New(t, redislocker.New(redistest.Client(t, server.Addr)))
		return tusdlock.New(g)
	}
	asked := make(chan struct{})
	one, err := lock(t, locker(), func() { close(asked) })
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		<-asked
		ended <- one.Unlock()
	}()
	two, err := lock(t, locker(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-ended, two.Unlock()); err != nil {
		t.Error(err)
	}
}

func TestALostLeaseInterruptsTheUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		asked := make(chan struct{})
		one, err := lock(t, tusdlock.New(g.Guard), func() { close(asked) })
		if err != nil {
			t.Fatal(err)
		}
		g.Lose(key)
		<-asked
		if err := one.Unlock(); !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("Unlock: %v", err)
		}
	})
}

func TestAStoreThatIsDownIsNoTimeout(t *testing.T) {
	g := guardtest.New(t)
	_ = g.Close(t.Context())
	if _, err := lock(t, tusdlock.New(g.Guard), nil); !errors.Is(err, guard.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

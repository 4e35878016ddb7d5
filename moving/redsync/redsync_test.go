package redsync_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/moving/redsync"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAMutexThatIsHeldIsTaken(t *testing.T) {
	server, rdb := redistest.Miniredis(t)
	rs, others := redsync.New(rdb), redsync.New(rdb)
	for _, r := range []*redsync.Redsync{rs, others} {
		defer func() { _ = r.Guard.Close(context.WithoutCancel(t.Context())) }()
	}
	m, other := rs.NewMutex("lock:sku:42"), others.NewMutex("lock:sku:42", redsync.WithTries(1))
	if ok, err := m.Extend(); ok || !errors.Is(err, guard.ErrNoLease) || !m.Until().IsZero() {
		t.Errorf("Extend before Lock: %v, %v", ok, err)
	}
	if ok, err := m.Unlock(); ok || !errors.Is(err, guard.ErrNoLease) {
		t.Errorf("Unlock before Lock: %v, %v", ok, err)
	}
	if err := m.Lock(); err != nil {
		t.Fatal(err)
	}
	if ok, err := m.Extend(); !ok || err != nil || m.Until().IsZero() || !server.Exists(m.Name()) {
		t.Errorf("Extend: %v, %v, until %v", ok, err, m.Until())
	}
	for name, lock := range map[string]func() error{"Lock": other.Lock, "TryLock": other.TryLock} {
		var taken *redsync.ErrTaken
		if err := lock(); !errors.Is(err, redsync.ErrFailed) || !errors.As(err, &taken) {
			t.Errorf("%s of a mutex that is held: %v", name, err)
		}
	}
	if ok, err := m.Unlock(); !ok || err != nil {
		t.Errorf("Unlock: %v, %v", ok, err)
	}
	if err := other.TryLock(); err != nil {
		t.Error(err)
	}
	if ok, err := other.Unlock(); !ok || err != nil {
		t.Errorf("Unlock: %v, %v", ok, err)
	}
}

func TestAMutexThatIsLostIsNotExtended(t *testing.T) {
	server, rdb := redistest.Miniredis(t)
	rs := redsync.New(rdb)
	defer func() { _ = rs.Guard.Close(context.WithoutCancel(t.Context())) }()
	m := rs.NewMutex("lock:sku:42", redsync.WithExpiry(300*time.Millisecond))
	if err := m.Lock(); err != nil {
		t.Fatal(err)
	}
	server.Del("lock:sku:42")
	ok, err := true, error(nil)
	for end := time.Now().Add(time.Minute); ok && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		ok, err = m.Extend()
	}
	if ok || !errors.Is(err, redsync.ErrExtendFailed) {
		t.Errorf("Extend: %v, %v", ok, err)
	}
	if ok, err := m.Unlock(); ok || !errors.Is(err, redsync.ErrLockAlreadyExpired) {
		t.Errorf("Unlock: %v, %v", ok, err)
	}
}

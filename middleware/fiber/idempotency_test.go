package lockmw_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/fiber"
)

const idempotencyKey = "00000000-0000-0000-0000-000000000001"

func TestARequestThatIsRepeatedWhileItRunsRunsOnce(t *testing.T) {
	mem := memlocker.New()
	storage := &shared{values: map[string][]byte{}}
	var runs atomic.Int32
	var wg sync.WaitGroup
	for _, l := range []guard.Locker{mem, mem.Peer()} { // two instances
		g, err := guard.New(l, guard.WithMaxWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close(t.Context()) }()
		once := idempotency.New(idempotency.Config{Lock: lockmw.NewIdempotencyLock(g), Storage: storage})
		for range 5 {
			wg.Go(func() {
				header := http.Header{"X-Idempotency-Key": {idempotencyKey}}
				status, body := do(t, fiber.Config{}, "/stock/42", header, once, func(c fiber.Ctx) error {
					runs.Add(1)
					return ok(c)
				})
				if status != http.StatusOK || body != "done" {
					t.Errorf("got %d %s", status, body)
				}
			})
		}
	}
	wg.Wait()
	if runs.Load() != 1 {
		t.Errorf("it ran %d times", runs.Load())
	}
}

func TestARepeatedRequestThatWaitsInVainIsAConflict(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("idempotency", idempotencyKey))
	once := idempotency.New(idempotency.Config{Lock: lockmw.NewIdempotencyLock(g), Storage: &shared{}})
	header := http.Header{"X-Idempotency-Key": {idempotencyKey}}
	if status, body := do(t, fiber.Config{}, "/stock/42", header, once, ok); status != http.StatusConflict {
		t.Errorf("got %d %s", status, body)
	}
}

func TestUnlockTellsOfALostLease(t *testing.T) {
	mem := memlocker.New()
	g, err := guard.New(mem)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(t.Context()) }()
	l := lockmw.NewIdempotencyLock(g)
	if err := l.Lock("k"); err != nil {
		t.Fatal(err)
	}
	mem.Lose(guard.Key("idempotency", "k"))
	if err := l.Unlock("k"); !errors.Is(err, guard.ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	if err := l.Unlock("k"); err == nil {
		t.Error("unlocked twice")
	}
}

func TestUnlockAfterALostLeaseLeavesTheLeaseOfAnotherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a lost lease is noticed after seconds
		mem, key := memlocker.New(), guard.Key("idempotency", "k")
		g, err := guard.New(mem, guard.WithMaxWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close(t.Context()) }()
		l := lockmw.NewIdempotencyLock(g)
		for range 2 {
			if err := l.Lock("k"); err != nil {
				t.Fatal(err)
			}
			mem.Lose(key) // of the first request; the second then has the key again
			if err := l.Lock("k"); err != nil {
				t.Fatal(err)
			}
			if err := l.Unlock("k"); !errors.Is(err, guard.ErrLeaseLost) { // by the first
				t.Errorf("got %v", err)
			}
			if _, err := g.TryAcquire(t.Context(), key); !errors.Is(err, guard.ErrNotAcquired) {
				t.Errorf("a third request runs beside the second: %v", err)
			}
			if err := l.Unlock("k"); err != nil { // by the second
				t.Error(err)
			}
		}
	})
}

// shared is a fiber.Storage that two instances share.
type shared struct {
	fiber.Storage

	mu     sync.Mutex // guards values
	values map[string][]byte
}

func (s *shared) GetWithContext(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key], nil
}

func (s *shared) SetWithContext(_ context.Context, key string, value []byte, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = bytes.Clone(value)
	return nil
}

package guard_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// A holdup is a locker that holds back the first refusal until a message has
// come. No other message passes, so that none can end the sleep afterwards.
type holdup struct {
	guard.Locker

	passes string // the message that passes: "granted" or "wake all"
	during func() // called while the refusal is held back
	waker  locker.Waker

	mu      sync.Mutex    // guards the fields below
	told    chan struct{} // gets a signal for the message; nil: no refusal is held back
	over    bool          // there was a refusal
	came    bool          // the message came in time
	refused time.Time     // when the refusal was passed on
}

func (h *holdup) Open(w locker.Waker) error {
	h.waker = w
	return h.Locker.Open(h)
}

func (h *holdup) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := h.Locker.Acquire(ctx, c, t)
	if told := h.begin(err == nil && !a.Acquired); told != nil {
		h.during()
		select {
		case <-told:
			h.end(true)
		case <-time.After(time.Second): // it was lost: the round tells nothing
			h.end(false)
		}
	}
	return a, err
}

// begin returns a channel if this is the first refusal.
func (h *holdup) begin(refused bool) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !refused || h.over {
		return nil
	}
	h.over, h.told = true, make(chan struct{}, 1)
	return h.told
}

func (h *holdup) end(came bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told, h.came, h.refused = nil, came, time.Now()
}

// pass calls tell if the message passes.
func (h *holdup) pass(message string, tell func()) {
	h.mu.Lock()
	told := h.told
	h.mu.Unlock()
	if told == nil || message != h.passes {
		return
	}
	tell()
	select {
	case told <- struct{}{}:
	default:
	}
}

func (h *holdup) Granted(key, owner string, o locker.Offer) (known bool) {
	known = true
	h.pass("granted", func() { known = h.waker.Granted(key, owner, o) })
	return known
}

func (h *holdup) Wanted(string) {}
func (h *holdup) Wake(string)   {}
func (h *holdup) WakeAll()      { h.pass("wake all", h.waker.WakeAll) }

// A message may come after the store has refused a try, and before the caller
// has gone to sleep. The caller acts on it at once, and not by its next look
// (law 4), which comes after 250 ms or more. On a slow machine some rounds may
// take as long. It is enough that one does not.
func TestDo_AMessageBetweenATryAndTheSleepAfterItIsNotLost(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"granted", "wake all"} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			quickest := time.Hour
			for range 20 {
				took, came := sleeper(t, server, message)
				if quickest = min(quickest, took); came && took < 125*time.Millisecond {
					return
				}
			}
			t.Errorf("the quickest caller had the key %v after its try was refused", quickest)
		})
	}
}

// sleeper returns how long a caller waits after a refusal, if the message came
// before the refusal was passed on, and whether it came.
func sleeper(t *testing.T, server *redistest.Server, message string) (took time.Duration, came bool) {
	t.Helper()
	rdb := redistest.Client(t, server.Addr)
	other := newGuard(t, redislocker.New(rdb), guard.WithTTL(time.Minute))
	l := must(other.Acquire(t.Context(), key))
	h := &holdup{Locker: redislocker.New(rdb), passes: message}
	h.during = func() {
		if message == "granted" {
			awaitSubscriber(t, rdb)
		}
		if err := l.Release(t.Context()); err != nil { // hands the key over
			t.Error(err)
		}
		if message == "wake all" {
			rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
		}
	}
	g := newGuard(t, h, guard.WithTTL(time.Minute), guard.WithBackoff(time.Hour, time.Hour))
	err := g.Do(t.Context(), key, func(context.Context) error {
		took = time.Since(h.refused)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return took, h.came
}

// awaitSubscriber waits until somebody hears messages on the server.
func awaitSubscriber(t *testing.T, rdb *redis.Client) {
	t.Helper()
	for t.Context().Err() == nil {
		if len(rdb.PubSubChannels(t.Context(), "*").Val()) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

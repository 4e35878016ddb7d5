package guard_test

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A resthouse is a locker of a process that waits for many keys. Another
// process holds them all.
type resthouse struct {
	guard.Locker
	t      *testing.T
	guard  *guard.Guard
	holder *memlocker.Locker
	held   []*locker.Claim
	waker  locker.Waker
	looks  atomic.Int64
	deaf   atomic.Bool // grants no rest, and no message comes
	done   sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	asked  bool       // the locker was asked for a rest
	looked map[string]time.Time
	most   map[string]time.Duration // longest pause between looks at a key
	ran    map[string]time.Time
}

// rest has a guard wait for the given number of the holder's keys. The guard
// waits long enough to be at rest.
func rest(t *testing.T, keys int, ttl time.Duration) *resthouse {
	t.Helper()
	mem := memlocker.New()
	h := &resthouse{
		Locker: mem, t: t, holder: mem.Peer(),
		looked: map[string]time.Time{}, most: map[string]time.Duration{}, ran: map[string]time.Time{},
	}
	if err := h.holder.Open(deafWaker{}); err != nil {
		t.Fatal(err)
	}
	h.guard = must(guard.New(h, guard.WithMaxWait(time.Hour), guard.WithMaxWaiters(0)))
	ctx, leave := context.WithCancel(t.Context())
	for i := range keys {
		c := &locker.Claim{Key: strconv.Itoa(i), Owner: rand.Text()[:locker.OwnerLen], TTL: ttl}
		h.held = append(h.held, c)
		if a, err := h.holder.Acquire(ctx, c, locker.Try{}); err != nil || !a.Acquired {
			t.Fatal(a, err)
		}
		h.done.Go(func() { h.wait(ctx, c.Key) })
	}
	t.Cleanup(func() {
		leave()
		h.done.Wait()
		if err := h.guard.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *resthouse) wait(ctx context.Context, key string) {
	_ = h.guard.Do(ctx, key, func(context.Context) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ran[key] = time.Now()
		return nil
	})
}

func (h *resthouse) Open(w locker.Waker) error {
	h.waker = w
	return h.Locker.Open(muffled{w, &h.deaf})
}

func (h *resthouse) Acquire(ctx context.Context, c *locker.Claim, try locker.Try) (locker.Answer, error) {
	h.looks.Add(1)
	h.mu.Lock()
	now := time.Now()
	h.asked = h.asked || try.Rest != 0
	if last, ok := h.looked[c.Key]; ok {
		h.most[c.Key] = max(h.most[c.Key], now.Sub(last))
	}
	h.looked[c.Key] = now
	h.mu.Unlock()
	if h.deaf.Load() {
		try.Rest = 0
	}
	return h.Locker.Acquire(ctx, c, try)
}

// longest waits for after. It returns the longest pause between any two looks
// at a key in that time.
func (h *resthouse) longest(after time.Duration) (d time.Duration) {
	h.mu.Lock()
	clear(h.most)
	h.mu.Unlock()
	time.Sleep(after)
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, last := range h.looked {
		d = max(d, h.most[key], time.Since(last))
	}
	return d
}

// release hands over the given number of keys. It returns the longest time that
// one of their waiters took to begin.
func (h *resthouse) release(keys int) (most time.Duration) {
	released := time.Now()
	for _, c := range h.held[:keys] {
		if r, err := h.holder.Release(h.t.Context(), c, nil); err != nil || !r.Handed {
			h.t.Fatal(r, err)
		}
	}
	return h.begun(keys, released)
}

func (h *resthouse) begun(keys int, since time.Time) (most time.Duration) {
	for _, c := range h.held[:keys] {
		for {
			synctest.Wait()
			h.mu.Lock()
			at, ok := h.ran[c.Key]
			h.mu.Unlock()
			if ok {
				most = max(most, at.Sub(since))
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return most
}

// muffled passes on messages until it is deaf.
type muffled struct {
	locker.Waker
	deaf *atomic.Bool
}

func (w muffled) Granted(key, owner string, o locker.Offer) bool {
	return w.deaf.Load() || w.Waker.Granted(key, owner, o)
}

const never = 20 * 24 * time.Hour

func TestDo_AProcessThatWaitsForManyKeysLooksAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := rest(t, testsize.Pick(10_000, 5_000), never)
		time.Sleep(10 * time.Second)
		before := h.looks.Load()
		if d := h.longest(10 * time.Second); d > locker.MaxRest {
			t.Errorf("%v between two looks, want %v at most", d, locker.MaxRest)
		}
		if n := (h.looks.Load() - before) / 10; n > 1_500 {
			t.Errorf("%d looks a second", n)
		}
	})
}

func TestDo_AClaimThatRestsBeginsAtOnceWhenItIsHandedItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := rest(t, 6_000, never)
		time.Sleep(6 * time.Second)
		before := h.looks.Load()
		if d := h.release(200); d != 0 {
			t.Errorf("begun %v after the release", d)
		}
		if n := h.looks.Load() - before; n == 0 || n > 200 {
			t.Errorf("%d looks at 200 offers, want one at each whose claim was seen too long ago to "+
				"trust it (law 1)", n)
		}
	})
}

func TestDo_AProcessThatWaitsForFewKeysLooksAtTheUsualPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := rest(t, 299, never)
		if d := h.longest(10 * time.Second); d > 250*time.Millisecond {
			t.Errorf("%v between two looks", d)
		}
		if h.asked {
			t.Error("asked for a rest")
		}
	})
}

func TestDo_WhoRestsLooksAsUsualOnceMessagesMayBeMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := rest(t, 1_000, never)
		time.Sleep(5 * time.Second)
		h.deaf.Store(true)
		h.waker.WakeAll()
		time.Sleep(250 * time.Millisecond) // 1,000 keys at 4,000 a second
		if d := h.longest(2 * time.Second); d > 250*time.Millisecond {
			t.Errorf("%v between two looks", d)
		}
		if d := h.release(100); d > 250*time.Millisecond {
			t.Errorf("begun %v after the release", d)
		}
		h.deaf.Store(false)
		time.Sleep(2 * time.Second)
		before := h.looks.Load()
		time.Sleep(5 * time.Second)
		if n := (h.looks.Load() - before) / 5; n > 1_500 {
			t.Errorf("%d looks a second after messages came again", n)
		}
	})
}

// looksAfterWakeAll returns how many looks at keys there are in each tenth of a
// second after WakeAll.
func (h *resthouse) looksAfterWakeAll(tenths int) []int {
	counts := make([]int, tenths)
	before := h.looks.Load()
	h.waker.WakeAll()
	for i := range counts {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		now := h.looks.Load()
		counts[i], before = int(now-before), now
	}
	return counts
}

func TestDo_ManyCallsThatAreWokenTogetherSpreadTheirLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := rest(t, 8_000, never)
		time.Sleep(10 * time.Second)
		all := 0
		for i, n := range h.looksAfterWakeAll(21) {
			if all += n; n > 600 {
				t.Errorf("%d looks in tenth %d of a second after the wake-up, want 400 and those due anyway", n, i)
			}
		}
		if d := h.longest(0); d > 2200*time.Millisecond || all < len(h.held) {
			t.Errorf("%d looks after 2.1 s, and a key was not looked at for %v", all, d)
		}
	})
}

func TestDo_FewCallsThatAreWokenTogetherLookAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := rest(t, 299, never)
		time.Sleep(time.Second)
		before := h.looks.Load()
		h.waker.WakeAll()
		synctest.Wait()
		if n := h.looks.Load() - before; n != 299 {
			t.Errorf("%d looks at once, want 299", n)
		}
	})
}

func TestDo_AClaimThatRestsHasACrashedHoldersKeyAtItsLeasesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		h := rest(t, 2_000, ttl)
		time.Sleep(7 * time.Second)
		h.holder.Renew(t.Context(), h.held, func(_ int, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		if d := h.begun(len(h.held), time.Now()); d < ttl || d > ttl+250*time.Millisecond {
			t.Errorf("begun %v after the last renewal", d)
		}
	})
}

func TestDo_ALostMessageCostsAClaimThatRestsNoMoreThanItsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := rest(t, 1_000, never)
		time.Sleep(5 * time.Second)
		h.deaf.Store(true) // the guard does not know that
		released := time.Now()
		if r, err := h.holder.Release(t.Context(), h.held[0], nil); err != nil || !r.Handed {
			t.Fatal(r, err)
		}
		if d := h.begun(1, released); d > time.Second {
			t.Errorf("begun %v after the release", d)
		}
	})
}

package redislocker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// elsewhere is a place where keys live. It records the keys that a repeater
// asks for and frees there.
type elsewhere struct {
	at    atomic.Pointer[string]
	asked atomic.Int32

	mu    sync.Mutex // guards freed
	freed []string
}

func (e *elsewhere) repeater(t *testing.T) *repeater {
	t.Helper()
	e.move("a")
	r := &repeater{
		primary: func(string) string { return *e.at.Load() },
		ask:     func(context.Context, []string) { e.asked.Add(1) },
		free: func(key, owner string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.freed = append(e.freed, key+" "+owner)
		},
		life: opened(t),
	}
	t.Cleanup(r.life.End)
	return r
}

func (e *elsewhere) move(to string) { e.at.Store(&to) }

func (e *elsewhere) all() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprint(e.freed)
}

func TestReleasesOfTheLastTTLComeAgainOnceTheirKeysLiveElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e elsewhere
		r := e.repeater(t)
		r.note("old", "1", time.Second)
		time.Sleep(2 * time.Second)
		r.note("k", "2", 10*time.Second)
		r.note("k", "3", 10*time.Second)
		time.Sleep(time.Second)
		if e.all() != "[]" {
			t.Errorf("freed %v before anything moved", e.all())
		}
		e.move("b")
		time.Sleep(repeatTick)
		e.move("a") // a rumour
		time.Sleep(time.Second)
		if e.all() != "[]" {
			t.Errorf("freed %v after a look that found them elsewhere", e.all())
		}
		e.move("b")
		time.Sleep((repeatLooks + 1) * repeatTick)
		if got := e.all(); got != "[k 2 k 3]" {
			t.Errorf("freed %v, want k 2 and k 3", got)
		}
		time.Sleep(2 * time.Second)
		e.move("c") // and once more
		time.Sleep((repeatLooks + 1) * repeatTick)
		if got := e.all(); got != "[k 2 k 3 k 2 k 3]" {
			t.Errorf("freed %v, want both again", got)
		}
	})
}

func TestNothingIsAskedWhenNoReleaseIsRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e elsewhere
		r := e.repeater(t)
		r.note("k", "1", time.Second)
		time.Sleep(3 * time.Second)
		asked := e.asked.Load()
		time.Sleep(time.Hour)
		if n := e.asked.Load(); asked == 0 || n != asked {
			t.Errorf("asked %d times, then %d times more", asked, n-asked)
		}
		r.note("k", "2", time.Second) // it begins anew
		e.move("b")
		time.Sleep((repeatLooks + 1) * repeatTick)
		if got := e.all(); got != "[k 2]" {
			t.Errorf("freed %v, want k 2", got)
		}
	})
}

func TestRecentReleasesAreBoundedAndCostNoAllocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e elsewhere
		r := e.repeater(t)
		for range 3 * repeatMost {
			r.note("k", "1", time.Hour)
		}
		if n := len(r.ring); n != repeatMost {
			t.Errorf("%d releases are kept, want %d", n, repeatMost)
		}
		if n := testing.AllocsPerRun(1000, func() { r.note("k", "2", time.Hour) }); n != 0 {
			t.Errorf("%v allocations for a release", n)
		}
	})
}

func TestAServerThatNeverChangesKeepsNoReleases(t *testing.T) {
	var r *repeater
	if n := testing.AllocsPerRun(100, func() { r.note("k", "1", time.Hour) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// In an outage the guard pauses before it releases again. A new primary need
// not wait for that.
func TestClaimsThatAreGivenUpAreKeptToo(t *testing.T) {
	l := New(nil, WithSentinel(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}))
	if err := l.Open(&listener{}); err != nil {
		t.Fatal(err)
	}
	c := &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: time.Minute}
	_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
	l.repeater.mu.Lock()
	if n := len(l.repeater.ring); n != 1 {
		t.Errorf("%d claims are kept, want 1", n)
	}
	l.repeater.mu.Unlock()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

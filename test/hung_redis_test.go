package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees pooled memory
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestDo_MemoryIsBoundedWhileAServerHangs makes as many failing calls as 2,000 a
// second make in a minute.
func TestDo_MemoryIsBoundedWhileAServerHangs(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	before := goleak.IgnoreCurrent()
	quiet := guard.WithLogger(slog.New(slog.DiscardHandler))
	g, err := guard.New(redislocker.New(rdb), quiet, guard.WithTTL(100*time.Millisecond), guard.WithMaxWait(0))
	if err != nil {
		t.Fatal(err)
	}
	// A first connection takes its time, and a try has 25 ms.
	for start := time.Now(); g.Do(t.Context(), key, nop) != nil; {
		if time.Since(start) > 10*time.Second {
			t.Fatal("no key of a server that is well")
		}
	}
	s.Stop()
	storm := func(calls int) {
		var wg sync.WaitGroup
		for w := range 1000 {
			wg.Go(func() {
				for n := range calls / 1000 {
					if err := g.Do(t.Context(), "hung:"+strconv.Itoa(w)+":"+strconv.Itoa(n), nop); err == nil {
						t.Error("a hung server gave a key")
					}
				}
			})
		}
		wg.Wait()
	}
	calls := testsize.Pick(60_000, 15_000)
	storm(calls)
	early := heap()
	storm(2 * calls)
	late := heap()
	t.Logf("%d KiB after %d calls, %d KiB after %d", early>>10, calls, late>>10, 3*calls)
	if late > early+10<<20 {
		t.Error("it grows")
	}
	closes(t, g)
	left := goleak.Find(before)
	// A handshake ends within its own time limit.
	for start := time.Now(); left != nil && time.Since(start) < 10*time.Second; {
		left = goleak.Find(before)
	}
	if left != nil {
		t.Error(left)
	}
	s.Cont()
}

func TestClose_NothingIsLeftAfterCloseOfAGuardWhoseServerIsGone(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	before := goleak.IgnoreCurrent()
	g, err := guard.New(redislocker.New(rdb))
	if err != nil {
		t.Fatal(err)
	}
	l := must(g.Acquire(t.Context(), key))
	s.Kill()
	_ = g.With(guard.WithMaxWait(100*time.Millisecond)).Do(t.Context(), "another", nop)
	_ = l.Release(t.Context())
	closes(t, g)
	if left := goleak.Find(before); left != nil {
		t.Error(left)
	}
}

// closes closes g within a second, whatever its store does.
func closes(t *testing.T, g *guard.Guard) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := g.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
}

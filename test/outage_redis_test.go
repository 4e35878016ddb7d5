package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// counting is a locker that counts the tries.
type counting struct {
	*redislocker.Locker

	tries atomic.Int64
}

func (c *counting) Acquire(ctx context.Context, cl *locker.Claim, t locker.Try) (locker.Answer, error) {
	c.tries.Add(1)
	return c.Locker.Acquire(ctx, cl, t)
}

// A real server hangs. Once that is known, calls for keys of their own end
// before the server goes on, and few of them ask it.
func TestDo_AServerThatHangsCostsCallsNothingOnceThatIsKnown(t *testing.T) {
	s := redistest.Start(t) // not parallel, because it counts goroutines
	store := &counting{Locker: redislocker.New(redistest.Client(t, s.Addr))}
	g := must(guard.New(store, guard.WithLogger(slog.New(slog.DiscardHandler))))
	defer closes(t, g)
	keys := 0
	do := func() error { keys++; return g.Do(t.Context(), "outage:"+strconv.Itoa(keys), nop) }
	until := func(what string, so func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !so(); {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	until("no key of a server that is well", func() bool { return do() == nil })
	s.Stop()
	until("the outage never became known", func() bool {
		before := store.tries.Load()
		return errors.Is(do(), guard.ErrUnavailable) && store.tries.Load() == before
	})

	const calls = 1000
	routines, before := runtime.NumGoroutine(), store.tries.Load()
	var all sync.WaitGroup
	for n := range calls {
		all.Go(func() { // ends before the server goes on
			if err := g.Do(t.Context(), "known:"+strconv.Itoa(n), nop); !errors.Is(err, guard.ErrUnavailable) {
				t.Errorf("a call in the outage: %v", err)
			}
		})
	}
	all.Wait()
	if tries := store.tries.Load() - before; tries > calls/2 {
		t.Errorf("%d tries of %d calls", tries, calls)
	}
	if more := runtime.NumGoroutine() - routines; more > calls/2 {
		t.Errorf("%d goroutines are left of %d calls", more, calls)
	}
	ran, open := false, g.With(guard.WithFailOpen())
	if err := open.Do(t.Context(), "open", func(context.Context) error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("WithFailOpen: ran %v, error %v", ran, err)
	}
	s.Cont()
	until("the server is well again, and no key is held", func() bool { return do() == nil })
}

package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// A tried call is one of the calls of an outage.
type tried struct {
	begin time.Time
	took  time.Duration
	err   error
}

// counting is a locker that counts the tries.
type counting struct {
	*redislocker.Locker

	mu    sync.Mutex
	tries []time.Time
}

func (c *counting) Acquire(ctx context.Context, cl *locker.Claim, t locker.Try) (locker.Answer, error) {
	c.mu.Lock()
	c.tries = append(c.tries, time.Now())
	c.mu.Unlock()
	return c.Locker.Acquire(ctx, cl, t)
}

// between returns how many tries were sent in a time.
func (c *counting) between(from, to time.Time) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.tries {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// TestDo_AServerThatHangsCostsCallsNothingOnceThatIsKnown stops a real server for
// some seconds while calls for keys of their own come. With -v it tells the
// figures. Its bounds are generous, because the machine may be busy.
func TestDo_AServerThatHangsCostsCallsNothingOnceThatIsKnown(t *testing.T) {
	rate, stopped := 200, testsize.Pick(10*time.Second, 6*time.Second)
	s := redistest.Start(t)
	store := &counting{Locker: redislocker.New(redistest.Client(t, s.Addr))}
	g := must(guard.New(store, guard.WithLogger(slog.New(slog.DiscardHandler))))
	defer closes(t, g)
	open := g.With(guard.WithFailOpen())
	for start := time.Now(); g.Do(t.Context(), key, nop) != nil; {
		if time.Since(start) > 10*time.Second {
			t.Fatal("no key of a server that is well")
		}
	}
	var mu sync.Mutex // guards all
	var all []tried
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			wg.Go(func() {
				begin := time.Now()
				err := g.Do(t.Context(), "outage:"+strconv.Itoa(n), nop)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, tried{begin, time.Since(begin), err})
			})
			time.Sleep(time.Second / time.Duration(rate))
		}
	})
	time.Sleep(time.Second)
	healthy := runtime.NumGoroutine()
	s.Stop()
	began := time.Now()
	time.Sleep(stopped - time.Second)
	known := runtime.NumGoroutine()
	ran := false
	if err := open.Do(t.Context(), "open", func(context.Context) error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("WithFailOpen: ran %v, error %v", ran, err)
	}
	time.Sleep(time.Until(began.Add(stopped)))
	s.Cont()
	mended := time.Now()
	time.Sleep(3 * time.Second)
	stop()
	wg.Wait()

	var refusals []time.Duration
	var back, bad time.Time
	for _, c := range all {
		switch sure := began.Add(4500 * time.Millisecond); {
		case c.begin.After(sure) && c.begin.Before(mended.Add(-time.Second)):
			if !errors.Is(c.err, guard.ErrUnavailable) {
				t.Errorf("a call in the outage: %v", c.err)
			}
			refusals = append(refusals, c.took)
		case c.err == nil && c.begin.After(mended) && (back.IsZero() || c.begin.Before(back)):
			back = c.begin
		case c.err != nil && c.begin.After(bad):
			bad = c.begin
		}
	}
	if len(refusals) == 0 || back.IsZero() {
		t.Fatalf("%d refusals, back at %v", len(refusals), back)
	}
	slices.Sort(refusals)
	median, p99 := refusals[len(refusals)/2], refusals[len(refusals)*99/100]
	probes := store.between(began.Add(4*time.Second), mended)
	t.Logf("%d refusals: median %v, p99 %v; goroutines %d healthy, %d known; %d tries in %v; "+
		"served %v after, last refused %v after",
		len(refusals), median, p99, healthy, known, probes, stopped-4*time.Second, back.Sub(mended), bad.Sub(mended))
	if median > 50*time.Millisecond {
		t.Errorf("a refusal takes %v", median)
	}
	if known > healthy+rate {
		t.Errorf("%d goroutines in the outage, %d before", known, healthy)
	}
	if probes > int(stopped.Seconds())*20 {
		t.Errorf("%d tries in the outage", probes)
	}
	if late := bad.Sub(mended); late > 2*time.Second {
		t.Errorf("a call that began %v after the outage was refused", late)
	}
}

package tracing_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

// A story is one thing that can happen to a call, with all its spans.
type story struct {
	name  string
	guard []guard.Option
	run   func(h *shop, ctx context.Context)
	spans []string
}

// metrics returns what all metrics must say after the story: the same as its
// spans. A hold inside another one is a span alone.
func (s story) metrics(t *testing.T) (lines []string) {
	t.Helper()
	lines = []string{"guard.leases{} 0", "guard.waiters{} 0"}
	counts, times := map[string]int{}, map[string]time.Duration{}
	for _, span := range s.spans {
		parts := strings.Split(span, ", ")
		took, err := time.ParseDuration(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		_, outcome, _ := strings.Cut(parts[3], "outcome=")
		if slices.Contains([]string{"recorded", "replayed", "joined"}, outcome) {
			lines = append(lines, "guard.results{outcome="+outcome+"} 1")
		}
		metric := "guard.wait.duration{outcome=" + outcome + "}"
		if strings.HasPrefix(span, "hold shop < request") {
			metric = "guard.hold.duration{outcome=" + outcome + "}"
			if _, lost, found := strings.Cut(span, "guard.lost at "); found {
				_, why, _ := strings.Cut(lost, " ")
				lines = append(lines, "guard.leases.lost{"+why+"} 1")
			}
		} else if strings.HasPrefix(span, "hold") {
			continue
		}
		counts[metric]++
		times[metric] += took
	}
	for metric, n := range counts {
		lines = append(lines, fmt.Sprintf("%s %d in %.4gs", metric, n, times[metric].Seconds()))
	}
	return lines
}

var stories = []story{
	{
		name: "at once",
		run: func(h *shop, ctx context.Context) {
			_ = h.Do(ctx, key, after(2*time.Second))
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"hold shop < request, 2s, Unset, outcome=released",
		},
	},
	{
		name: "a result, and the same again",
		run: func(h *shop, ctx context.Context) {
			charge := func(ctx context.Context) (int, error) { return 1, after(2 * time.Second)(ctx) }
			for range 2 {
				_, _ = guard.Once(ctx, h.Guard, key, time.Hour, charge)
			}
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"hold shop < request, 2s, Unset, outcome=recorded",
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=replayed, link to hold shop",
		},
	},
	{
		name: "a result that a call waits for",
		run: func(h *shop, request context.Context) {
			var wg sync.WaitGroup
			var charge func(ctx context.Context) (int, error)
			charge = func(ctx context.Context) (int, error) {
				wg.Go(func() { _, _ = guard.Once(request, h.Guard, key, time.Hour, charge) })
				return 1, after(2 * time.Second)(ctx)
			}
			_, _ = guard.Once(request, h.Guard, key, time.Hour, charge)
			wg.Wait()
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"acquire shop < request, 2s, Unset, attempts=0 handoff=false outcome=joined, link to hold shop",
			"hold shop < request, 2s, Unset, outcome=recorded",
		},
	},
	{
		name: "after a wait for another process",
		run: func(h *shop, ctx context.Context) {
			l, _ := h.other.Acquire(ctx, key)
			time.AfterFunc(time.Second, func() { _ = l.Release(ctx) })
			_ = h.Do(ctx, key, nop)
			synctest.Wait()
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"hold shop < request, 1s, Unset, outcome=released",
			"acquire shop < request, 1s, Unset, attempts=more handoff=false outcome=acquired, link to acquire shop",
			"hold shop < request, 0s, Unset, outcome=released",
		},
	},
	{
		name: "by hand-off",
		run: func(h *shop, ctx context.Context) {
			var wg sync.WaitGroup
			_ = h.Do(ctx, key, func(context.Context) error {
				wg.Go(func() { _ = h.Do(ctx, key, after(time.Millisecond)) })
				return after(time.Second / 20)(ctx)
			})
			wg.Wait()
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"hold shop < request, 50ms, Unset, outcome=released",
			"acquire shop < request, 50ms, Unset, attempts=0 handoff=true outcome=acquired, link to acquire shop",
			"hold shop < request, 1ms, Unset, outcome=released",
		},
	},
	{
		name: "timeout",
		run: func(h *shop, ctx context.Context) {
			l, _ := h.other.Acquire(ctx, key)
			_ = h.Do(ctx, key, nop)
			_ = h.With(guard.WithMaxWait(0)).Do(ctx, key, nop)
			_ = l.Release(ctx)
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"acquire shop < request, 3s, Unset, attempts=more handoff=false outcome=timeout, link to acquire shop",
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=timeout, link to acquire shop",
			"hold shop < request, 3s, Unset, outcome=released",
		},
	},
	{
		name:  "queue full",
		guard: []guard.Option{guard.WithMaxWaiters(1)},
		run: func(h *shop, ctx context.Context) {
			var wg sync.WaitGroup
			_ = h.Do(ctx, key, func(context.Context) error {
				wg.Go(func() { _ = h.Do(ctx, key, nop) })
				synctest.Wait()
				_ = h.Do(ctx, key, nop)
				return nil
			})
			wg.Wait()
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"acquire shop < request, 0s, Unset, attempts=0 handoff=false outcome=queue_full, link to acquire shop",
			"hold shop < request, 0s, Unset, outcome=released",
			"acquire shop < request, 0s, Unset, attempts=0 handoff=true outcome=acquired, link to acquire shop",
			"hold shop < request, 0s, Unset, outcome=released",
		},
	},
	{
		name: "canceled",
		run: func(h *shop, ctx context.Context) {
			l, _ := h.other.Acquire(ctx, key)
			gone, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			_ = h.Do(gone, key, nop)
			short, cancel := context.WithTimeoutCause(ctx, time.Second, guard.ErrLeaseLost) // of another key, say
			defer cancel()
			_ = h.Do(short, key, nop)
			_ = l.Release(ctx)
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"acquire shop < request, 1s, Unset, attempts=more handoff=false outcome=canceled, link to acquire shop",
			"acquire shop < request, 1s, Unset, attempts=more handoff=false outcome=canceled, link to acquire shop",
			"hold shop < request, 2s, Unset, outcome=released",
		},
	},
	{
		name:  "unavailable",
		guard: []guard.Option{guard.WithMaxWait(0)},
		run: func(h *shop, ctx context.Context) {
			mend := h.mem.Break()
			_ = h.Do(ctx, key, nop)
			mend()
		},
		spans: []string{
			"acquire shop < request, 0s, Error, attempts=1 error.type=unavailable handoff=false outcome=unavailable",
		},
	},
	{
		name:  "unguarded",
		guard: []guard.Option{guard.WithMaxWait(0), guard.WithFailOpen()},
		run: func(h *shop, ctx context.Context) {
			mend := h.mem.Break()
			_ = h.Do(ctx, key, nop)
			mend()
		},
		spans: []string{
			"acquire shop < request, 0s, Error, attempts=1 error.type=unguarded handoff=false outcome=unguarded",
		},
	},
	{
		name: "release not confirmed",
		run: func(h *shop, ctx context.Context) {
			_ = h.Do(ctx, key, func(context.Context) error { h.mem.Break(); return nil })
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"hold shop < request, 0s, Error, error.type=unavailable outcome=unavailable",
		},
	},
	{
		name:  "lost, and a call inside",
		guard: []guard.Option{guard.WithoutRenewal()},
		run: func(h *shop, ctx context.Context) {
			_ = h.Do(ctx, key, func(ctx context.Context) error {
				time.Sleep(20 * time.Second)
				synctest.Wait()
				return h.Do(context.WithoutCancel(ctx), key, nop)
			})
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"acquire shop < hold shop, 0s, Error, attempts=0 error.type=lost handoff=true outcome=lost",
			"hold shop < request, 20s, Error, error.type=lost outcome=lost, guard.lost at 9.4s outcome=lost " +
				"reason=deadline",
		},
	},
	{
		name:  "max hold",
		guard: []guard.Option{guard.WithMaxHold(2 * time.Second)},
		run: func(h *shop, ctx context.Context) {
			_ = h.Do(ctx, key, func(ctx context.Context) error {
				return h.Do(ctx, key, after(3*time.Second)) // inside: the same loss, counted once
			})
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"acquire shop < hold shop, 0s, Unset, attempts=0 handoff=true outcome=reentered",
			"hold shop < hold shop, 3s, Error, error.type=max_hold outcome=max_hold, guard.lost at 2s " +
				"outcome=max_hold reason=max_hold",
			"hold shop < request, 3s, Error, error.type=max_hold outcome=max_hold, guard.lost at 2s outcome=max_hold " +
				"reason=max_hold",
		},
	},
	{
		name: "panic and Goexit",
		run: func(h *shop, ctx context.Context) {
			var wg sync.WaitGroup
			wg.Go(func() { _ = h.Do(ctx, key, func(context.Context) error { runtime.Goexit(); return nil }) })
			wg.Wait()
			defer func() { _ = recover() }()
			_ = h.Do(ctx, key, func(context.Context) error { panic(key) })
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"hold shop < request, 0s, Error, error.type=panicked outcome=panicked",
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"hold shop < request, 0s, Error, error.type=panicked outcome=panicked",
		},
	},
	{
		name: "re-entry",
		run: func(h *shop, ctx context.Context) {
			_ = h.Do(ctx, key, func(ctx context.Context) error {
				var wg sync.WaitGroup
				defer wg.Wait()
				wg.Go(func() { _ = h.Do(ctx, key, after(time.Second)) })
				synctest.Wait()
				return h.Do(ctx, key, after(time.Second)) // waits for its sibling
			})
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"acquire shop < hold shop, 0s, Unset, attempts=0 handoff=true outcome=reentered",
			"hold shop < hold shop, 1s, Unset, outcome=released",
			"acquire shop < hold shop, 1s, Unset, attempts=0 handoff=true outcome=reentered",
			"hold shop < hold shop, 1s, Unset, outcome=released",
			"hold shop < request, 2s, Unset, outcome=released",
		},
	},
	{
		name: "closed",
		run: func(h *shop, ctx context.Context) {
			_ = h.Do(ctx, key, func(context.Context) error {
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_ = h.Close(short)
				return h.Do(ctx, key, nop)
			})
		},
		spans: []string{
			"acquire shop < request, 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"acquire shop < request, 0s, Unset, attempts=0 handoff=false outcome=closed",
			"hold shop < request, 1s, Error, error.type=closed outcome=closed, guard.lost at 1s " +
				"outcome=closed reason=closed",
		},
	},
}

// tell plays a story under a request's span.
func (s story) tell(t *testing.T, with setup) *shop {
	t.Helper()
	with.guard = append(with.guard, s.guard...)
	h := open(t, with)
	ctx, request := h.tracer.Start(t.Context(), "request")
	s.run(h, ctx)
	synctest.Wait()
	request.End()
	return h
}

func TestEachOutcomeHasItsSpansAndMetrics(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := s.tell(t, setup{})
				equal(t, "spans", h.spanLines(t), s.spans)
				equal(t, "metrics", h.metricLines(t), s.metrics(t))
			})
		})
	}
}

func TestARenewalIsAnEventOnlyIfItFailsOrIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, setup{})
		err := h.Do(t.Context(), key, func(context.Context) error {
			time.Sleep(4 * time.Second) // renewed
			mend := h.mem.Break()
			time.Sleep(5 * time.Second) // tried in vain
			mend()
			time.Sleep(2 * time.Second) // renewed late
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		events := h.spans.Ended()[1].Events()
		if len(events) < 2 {
			t.Fatalf("%d events", len(events))
		}
		for i, e := range events {
			want := "unavailable"
			if i == len(events)-1 {
				want = "renewed"
			}
			var outcome string
			left := -1.0
			for _, a := range e.Attributes {
				switch a.Key {
				case "guard.outcome":
					outcome = a.Value.AsString()
				case "guard.renewal.left":
					left = a.Value.AsFloat64()
				}
			}
			if e.Name != "guard.renewal" || outcome != want || left <= 0 || left > 7 || len(e.Attributes) != 2 {
				t.Errorf("event %s %v", e.Name, e.Attributes)
			}
		}
	})
}

func TestTheGaugesSayWhatIsTheCaseNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, setup{})
		var wg sync.WaitGroup
		_ = h.Do(t.Context(), key, func(ctx context.Context) error {
			for range 3 {
				wg.Go(func() { _ = h.Do(t.Context(), key, nop) })
			}
			synctest.Wait()
			return h.Do(ctx, key, func(context.Context) error { // inside: the same key is held once
				equal(t, "metrics", h.metricLines(t), []string{
					"guard.leases{} 1",
					"guard.wait.duration{outcome=acquired} 1 in 0s",
					"guard.wait.duration{outcome=reentered} 1 in 0s",
					"guard.waiters{} 3",
				})
				return nil
			})
		})
		wg.Wait()
	})
}

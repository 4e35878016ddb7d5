package tracing_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/tracing"
)

// oldest returns guard.hold.oldest of the guard named shop, or -1 if there is
// none.
func (h *shop) oldest(t *testing.T) float64 {
	t.Helper()
	return h.gauge(t, "guard.hold.oldest")
}

// gauge returns the only value of a gauge, or -1 if there is none.
func (h *shop) gauge(t *testing.T, name string) float64 {
	t.Helper()
	for _, m := range h.collect(t).ScopeMetrics[0].Metrics {
		if data, ok := m.Data.(metricdata.Gauge[float64]); ok && m.Name == name && len(data.DataPoints) == 1 {
			return data.DataPoints[0].Value
		}
	}
	return -1
}

func TestTheOldestHoldShowsWhileItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, setup{guard: []guard.Option{guard.WithMaxHold(0)}})
		take := func(key string) *guard.Lease {
			l, err := h.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		expect := func(want float64) {
			t.Helper()
			if got := h.oldest(t); got != want {
				t.Errorf("got %v s, want %v", got, want)
			}
		}
		a := take("a")
		time.Sleep(time.Minute)
		b := take("b")
		time.Sleep(time.Minute)
		c := take("c")
		time.Sleep(time.Minute)
		expect(180)
		_ = b.Release(t.Context())
		expect(180)
		_ = a.Release(t.Context())
		expect(60)
		b = take("b")
		_ = c.Release(t.Context())
		expect(0)
		time.Sleep(time.Second)
		expect(1)
		_ = b.Release(t.Context())
		expect(0)
	})
}

// An alert compares the oldest hold with its limit. There is none for a leader,
// whose hold never ends.
func TestTheLimitOfTheOldestHoldIsThereUnlessItHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, setup{guard: []guard.Option{guard.WithMaxHold(90 * time.Second)}})
		expect := func(want float64) {
			t.Helper()
			if got := h.gauge(t, "guard.hold.limit"); got != want {
				t.Errorf("got %v s, want %v", got, want)
			}
		}
		expect(-1)
		_ = h.Do(t.Context(), key, func(context.Context) error { expect(90); return nil })
		expect(-1)
		long := h.With(guard.WithMaxHold(time.Hour))
		_ = long.Do(t.Context(), key, func(context.Context) error { expect(3600); return nil })
		_ = h.Lead(t.Context(), key, func(context.Context) error {
			time.Sleep(time.Hour)
			expect(-1)
			if got := h.oldest(t); got != 3600 {
				t.Errorf("the leader leads for %v s, want an hour", got)
			}
			return nil
		})
	})
}

func TestCountersBeginWithZeroBeforeTheFirstCall(t *testing.T) {
	h := open(t, setup{})
	equal(t, "counters of New", h.zeros(t, "shop"), zeros)
	h.With(guard.WithName("refund"))
	h.With(guard.WithName("refund"), guard.WithMaxWait(0))
	equal(t, "counters of With", h.zeros(t, "refund"), zeros)
	if err := h.With(guard.WithName("refund")).Do(t.Context(), key, nop); err != nil {
		t.Fatal(err)
	}
	for _, m := range h.collect(t).ScopeMetrics[0].Metrics {
		if data, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "guard.waits" {
			for _, p := range data.DataPoints {
				what := describe(p.Attributes.ToSlice(), exclusive)
				if does := what == "name=refund outcome=acquired"; (p.Value == 1) != does {
					t.Errorf("%s is %d", what, p.Value)
				}
			}
		}
	}
}

// The global provider may be set after the guard was made.
func TestCountersBeginWithZeroWhereTheProviderComesLater(t *testing.T) {
	defer otel.SetMeterProvider(otel.GetMeterProvider())
	h := open(t, setup{})
	if _, err := tracing.New(); err != nil { // of another guard
		t.Fatal(err)
	}
	obs, err := tracing.New()
	if err != nil {
		t.Fatal(err)
	}
	h.With(guard.WithName("late"), guard.WithObserver(obs))
	h.reader = sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(h.reader)))
	equal(t, "counters", h.zeros(t, "late"), zeros)
}

// zeros returns the counters of a name. They must be 0.
func (h *shop) zeros(t *testing.T, name string) (got []string) {
	t.Helper()
	for _, m := range h.collect(t).ScopeMetrics[0].Metrics {
		data, _ := m.Data.(metricdata.Sum[int64])
		for _, p := range data.DataPoints {
			if v, _ := p.Attributes.Value("guard.name"); v.AsString() != name {
				continue
			}
			if p.Value != 0 {
				t.Errorf("%s is %d", m.Name, p.Value)
			}
			got = append(got, strings.TrimSpace(m.Name+" "+describe(p.Attributes.ToSlice(),
				attribute.String("guard.name", name), exclusive)))
		}
	}
	return got
}

var zeros = []string{
	"guard.waits outcome=acquired", "guard.waits outcome=reentered", "guard.waits outcome=timeout",
	"guard.waits outcome=queue_full",
	"guard.waits outcome=canceled", "guard.waits outcome=unavailable", "guard.waits outcome=unguarded",
	"guard.waits outcome=closed",
	"guard.waits outcome=lost",
	"guard.waits outcome=outer_released", "guard.waits outcome=error", "guard.waiters", "guard.leases",
	"guard.leases.lost outcome=closed reason=closed", "guard.leases.lost outcome=lost reason=deadline",
	"guard.leases.lost outcome=lost reason=forced", "guard.leases.lost outcome=lost reason=outlived",
	"guard.leases.lost outcome=lost reason=taken", "guard.leases.lost outcome=max_hold reason=max_hold",
	"guard.renewals outcome=lost", "guard.renewals outcome=renewed", "guard.renewals outcome=unavailable",
}

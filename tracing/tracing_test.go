package tracing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	apimetric "go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/tracing"
)

func TestTheMetricsAreThoseOfTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, setup{guard: []guard.Option{guard.WithMaxHold(5 * time.Second)}})
		_ = h.Do(t.Context(), key, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait() // LeaseLost runs in another goroutine
		rm := h.collect(t)
		if len(rm.ScopeMetrics) != 1 {
			t.Fatalf("%d scopes", len(rm.ScopeMetrics))
		}
		scope := rm.ScopeMetrics[0].Scope
		if scope.Name != tracing.ScopeName || scope.Version != "(devel)" || scope.SchemaURL != semconv.SchemaURL {
			t.Errorf("scope is %+v", scope)
		}
		if s := h.spans.Ended()[0].InstrumentationScope(); s.Name != scope.Name || s.Version != scope.Version ||
			s.SchemaURL != scope.SchemaURL {
			t.Errorf("scope of spans is %+v", s)
		}
		waits := []float64{.001, .005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
		holds := append(slices.Clip(waits), 15, 30, 60, 120)
		histogram := func(bounds []float64, outcome string, bucket int, value float64) metricdata.Histogram[float64] {
			counts := make([]uint64, len(bounds)+1)
			counts[bucket] = 1
			return metricdata.Histogram[float64]{
				Temporality: metricdata.CumulativeTemporality,
				DataPoints: []metricdata.HistogramDataPoint[float64]{{
					Attributes: attribute.NewSet(name, exclusive, attribute.String("guard.outcome", outcome)),
					Count:      1, Sum: value, Bounds: bounds, BucketCounts: counts,
					Min: metricdata.NewExtrema(value), Max: metricdata.NewExtrema(value),
				}},
			}
		}
		none := metricdata.Sum[int64]{
			Temporality: metricdata.CumulativeTemporality,
			DataPoints:  []metricdata.DataPoint[int64]{{Attributes: attribute.NewSet(name, exclusive)}},
		}
		losses := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
		for _, l := range []struct {
			outcome, reason string
			n               int64
		}{
			{"max_hold", "max_hold", 1},
			{"closed", "closed", 0},
			{"lost", "deadline", 0},
			{"lost", "taken", 0},
			{"lost", "forced", 0},
			{"lost", "outlived", 0},
		} {
			set := attribute.NewSet(name, exclusive, attribute.String("guard.outcome", l.outcome),
				attribute.String("guard.reason", l.reason))
			losses.DataPoints = append(losses.DataPoints, metricdata.DataPoint[int64]{Attributes: set, Value: l.n})
		}
		counter := func(counted string, others ...string) metricdata.Sum[int64] {
			sum := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
			for i, outcome := range append([]string{counted}, others...) {
				set := attribute.NewSet(name, exclusive, attribute.String("guard.outcome", outcome))
				sum.DataPoints = append(sum.DataPoints,
					metricdata.DataPoint[int64]{Attributes: set, Value: int64(1 - min(i, 1))})
			}
			return sum
		}
		points := []metricdata.DataPoint[float64]{{Attributes: attribute.NewSet(name, exclusive)}}
		oldest := metricdata.Gauge[float64]{DataPoints: points}
		want := []metricdata.Metrics{
			{Name: "guard.wait.duration", Unit: "s", Data: histogram(waits, "acquired", 0, 0)},
			{Name: "guard.hold.duration", Unit: "s", Data: histogram(holds, "max_hold", 12, 5)},
			{Name: "guard.waiters", Unit: "{waiter}", Data: none},
			{Name: "guard.leases", Unit: "{lease}", Data: none},
			{Name: "guard.renewals", Unit: "{renewal}", Data: counter("renewed", "lost", "unavailable")},
			{Name: "guard.leases.lost", Unit: "{lease}", Data: losses},
			{Name: "guard.hold.oldest", Unit: "s", Data: oldest},
			{
				Name: "guard.waits", Unit: "{wait}",
				Data: counter("acquired", "reentered", "timeout", "queue_full", "canceled",
					"unavailable", "unguarded", "closed", "lost", "outer_released", "error"),
			},
		}
		got := rm.ScopeMetrics[0].Metrics
		for i := range got {
			if got[i].Description == "" {
				t.Errorf("%s has no description", got[i].Name)
			}
			got[i].Description = ""
		}
		metricdatatest.AssertEqual(t, metricdata.ScopeMetrics{Scope: scope, Metrics: want},
			rm.ScopeMetrics[0], metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
	})
}

func TestKeysMakeNoSeries(t *testing.T) {
	h := open(t, setup{sampler: sdktrace.NeverSample(), tracing: []tracing.Option{tracing.WithKeys()}})
	for i := range 100_000 {
		w := guard.WaitInfo{Name: "shop", Key: guard.Key("stock", i)}
		h.obs.WaitEnd(h.obs.WaitStart(t.Context(), w), w, guard.WaitResult{})
		ctx := h.obs.HoldStart(t.Context(), w)
		h.obs.Renewed(ctx, w, guard.RenewResult{})
		h.obs.LeaseLost(ctx, w, guard.ErrLeaseLost)
		h.obs.HoldEnd(ctx, w, guard.HoldResult{})
	}
	if lines := h.metricLines(t); len(lines) != 6 {
		t.Errorf("%d series: %q", len(lines), lines)
	}
}

func TestAMeasurementCarriesTheTraceOfItsCall(t *testing.T) {
	h := open(t, setup{})
	ctx, request := h.tracer.Start(t.Context(), "request")
	_ = h.Do(ctx, key, nop)
	spans := map[string]trace.SpanID{}
	for _, s := range h.spans.Ended() {
		spans[s.Name()] = s.SpanContext().SpanID()
	}
	for _, m := range h.collect(t).ScopeMetrics[0].Metrics {
		data, ok := m.Data.(metricdata.Histogram[float64])
		if !ok {
			continue
		}
		want := spans["acquire shop"]
		if m.Name == "guard.hold.duration" {
			want = spans["hold shop"]
		}
		e := data.DataPoints[0].Exemplars
		if len(e) != 1 || trace.SpanID(e[0].SpanID) != want ||
			trace.TraceID(e[0].TraceID) != request.SpanContext().TraceID() {
			t.Errorf("%s has exemplars %+v", m.Name, e)
		}
	}
	request.End()
}

// noisyLocker marks everything that a locker knows of holders, and keeps the
// owner ids.
type noisyLocker struct {
	guard.Locker
	mu     *sync.Mutex // guards owners
	owners *[]string
}

func (l noisyLocker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.mu.Lock()
	*l.owners = append(*l.owners, c.Owner)
	l.mu.Unlock()
	c.Holder.Host = "secret-host"
	answer, err := l.Locker.Acquire(ctx, c, t)
	if !answer.Acquired {
		answer.Holder.Instance = "secret-instance"
	}
	return answer, err
}

func TestNoKeyOwnerOrHolderLeaves(t *testing.T) {
	for _, raw := range []bool{false, true} {
		for _, s := range stories {
			t.Run(fmt.Sprintf("raw keys %v, %s", raw, s.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { grep(t, s, raw) })
			})
		}
	}
}

// grep looks for secrets in everything that a story emits.
func grep(t *testing.T, s story, raw bool) {
	t.Helper()
	var mu sync.Mutex
	var owners []string
	var logs lockedBuffer
	with := setup{
		logs:    &logs,
		locker:  func(l guard.Locker) guard.Locker { return noisyLocker{l, &mu, &owners} },
		tracing: []tracing.Option{tracing.WithAttributes(attribute.String("team", "sales"))},
	}
	if raw {
		with.tracing = append(with.tracing, tracing.WithKeys())
	}
	h := s.tell(t, with)
	spans, metrics := dump(t, h.stubs()), dump(t, h.collect(t))
	if strings.Contains(spans, key) != raw {
		t.Errorf("the key is in spans: %v, want %v", !raw, raw)
	}
	for _, secret := range append(owners, "secret-host", "secret-instance") {
		if strings.Contains(spans, secret) {
			t.Errorf("%q is in spans", secret)
		}
	}
	for _, secret := range append(owners, "secret") {
		if strings.Contains(metrics, secret) || strings.Contains(logs.String(), secret) {
			t.Errorf("%q is in metrics or logs", secret)
		}
	}
	if !strings.Contains(spans, guard.KeyHash(key)) || !strings.Contains(spans, "sales") ||
		!strings.Contains(metrics, "sales") {
		t.Error("this test looks in the wrong place")
	}
}

// An exporter that speaks OTLP refuses a whole batch for one string that is not
// UTF-8.
func TestWhatIsExportedIsUTF8AndBounded(t *testing.T) {
	bad := "\xff\x9b" + strings.Repeat("ключ", 200)
	h := open(t, setup{tracing: []tracing.Option{tracing.WithKeys()}, guard: []guard.Option{guard.WithName(bad)}})
	if err := h.Do(t.Context(), bad, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	seen := 0
	check := func(s string) {
		if !utf8.ValidString(s) || len(s) > 300 {
			t.Errorf("%d bytes, want at most 300 of UTF-8: %.20q", len(s), s)
		}
		seen++
	}
	attributes := func(attrs []attribute.KeyValue) {
		for _, a := range attrs {
			check(a.Value.String())
		}
	}
	for _, span := range h.stubs() {
		check(span.Name)
		attributes(span.Attributes)
	}
	for _, m := range h.collect(t).ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, p := range sum.DataPoints {
				attributes(p.Attributes.ToSlice())
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d strings were seen", seen)
	}
}

// Spans that are not sampled must not be confused with a sampled span around
// them.
func TestAnUnsampledCallInsideASampledHoldLeavesItAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, setup{
			sampler: notNamed{"inner"},
			tracing: []tracing.Option{tracing.WithMeterProvider(noopmetric.NewMeterProvider())},
		})
		inner := h.With(guard.WithName("inner"))
		_ = h.Do(t.Context(), key, func(ctx context.Context) error {
			_ = inner.Do(ctx, "2", after(time.Second))
			l, _ := inner.Acquire(ctx, "3")
			_ = l.Release(ctx)
			return after(time.Second)(ctx)
		})
		equal(t, "spans", h.spanLines(t), []string{
			"acquire shop < , 0s, Unset, attempts=1 handoff=false outcome=acquired",
			"hold shop < , 2s, Unset, outcome=released",
		})
	})
}

type notNamed struct{ name string }

func (s notNamed) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	if slices.Contains(p.Attributes, attribute.String("guard.name", s.name)) { // so the name is there from the start
		r.Decision = sdktrace.Drop
	}
	return r
}

func (notNamed) Description() string { return "notNamed" }

func TestAnErrorMayNameItsType(t *testing.T) {
	h := open(t, setup{
		guard:  []guard.Option{guard.WithMaxWait(0)},
		locker: func(l guard.Locker) guard.Locker { return typedFailure{l} },
	})
	_ = h.Do(t.Context(), key, nop)
	equal(t, "attributes", []string{describe(h.spans.Ended()[0].Attributes(), name, exclusive, keyHash)},
		[]string{"attempts=1 error.type=READONLY handoff=false outcome=unavailable"})
}

type typedFailure struct{ guard.Locker }

func (typedFailure) Acquire(context.Context, *locker.Claim, locker.Try) (locker.Answer, error) {
	return locker.Answer{}, fmt.Errorf("%w: %w", guard.ErrUnavailable, typedError{})
}

type typedError struct{}

func (typedError) Error() string     { return "read only" }
func (typedError) ErrorType() string { return "READONLY" }

func TestNilProvidersAndOptions(t *testing.T) {
	h := open(t, setup{tracing: []tracing.Option{tracing.WithTracerProvider(nil), tracing.WithMeterProvider(nil)}})
	_ = h.Do(t.Context(), key, nop)
	if len(h.spans.Ended()) != 2 || len(h.metricLines(t)) != 4 {
		t.Error("nil replaced a provider")
	}
	if _, err := tracing.New(nil); err == nil {
		t.Error("a nil option is accepted")
	}
	if _, err := tracing.New(tracing.WithMeterProvider(refusingMeters{})); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
	if _, err := tracing.New(); err != nil { // on the global providers
		t.Error(err)
	}
}

var errRefused = errors.New("refused")

type refusingMeters struct{ noopmetric.MeterProvider }

func (refusingMeters) Meter(string, ...apimetric.MeterOption) apimetric.Meter {
	return refusingMeter{}
}

type refusingMeter struct{ noopmetric.Meter }

func (refusingMeter) Int64Counter(string, ...apimetric.Int64CounterOption) (apimetric.Int64Counter, error) {
	return nil, errRefused
}

// A trace that began elsewhere continues through a process that has no SDK.
func TestTheTraceparentIsThatOfASampledSpan(t *testing.T) {
	obs, err := tracing.New(tracing.WithTracerProvider(noop.NewTracerProvider()),
		tracing.WithMeterProvider(noopmetric.NewMeterProvider()))
	if err != nil {
		t.Fatal(err)
	}
	sc := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
		TraceFlags: trace.FlagsSampled, Remote: true,
	})
	for want, sc := range map[string]trace.SpanContext{
		"": {},
		"00-01000000000000000000000000000000-0200000000000000-01": sc,
	} {
		ctx := trace.ContextWithSpanContext(t.Context(), sc)
		if got := obs.Traceparent(obs.WaitStart(ctx, guard.WaitInfo{Name: "shop"})); got != want {
			t.Errorf("traceparent is %q, want %q", got, want)
		}
		if got := obs.Traceparent(trace.ContextWithSpanContext(ctx, sc.WithTraceFlags(0))); got != "" {
			t.Errorf("traceparent of an unsampled span is %q", got)
		}
	}
}

func TestConcurrentSafe(t *testing.T) {
	h := open(t, setup{guard: []guard.Option{
		guard.WithBackoff(time.Millisecond, time.Millisecond),
		guard.WithMaxWait(time.Minute),
	}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			g := h.With(guard.WithName(fmt.Sprint("shop", i%4)))
			for range 50 {
				_ = g.Do(t.Context(), key, func(ctx context.Context) error { return h.Do(ctx, key, nop) })
			}
		})
	}
	for range 20 {
		h.collect(t)
	}
	wg.Wait()
	for _, m := range h.collect(t).ScopeMetrics[0].Metrics {
		data, ok := m.Data.(metricdata.Sum[int64])
		for _, p := range data.DataPoints {
			if ok && p.Value != 0 && m.Name != "guard.waits" {
				t.Errorf("%s is %d in the end", m.Name, p.Value)
			}
		}
	}
	if n := len(h.spans.Ended()); n != 8*50*4 {
		t.Errorf("%d spans", n)
	}
}

func dump(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

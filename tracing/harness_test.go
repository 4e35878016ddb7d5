package tracing_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "stock:secret-42"

// shop is a guard under an SDK that keeps everything it gets. It also has a
// second guard on the same store, as another process would.
type shop struct {
	*guard.Guard
	other  *guard.Guard
	obs    *tracing.Observer
	mem    *memlocker.Locker
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer // the application's tracer
	reader *metric.ManualReader
	meters *metric.MeterProvider
	tp     *sdktrace.TracerProvider
}

type setup struct {
	sampler sdktrace.Sampler
	tracing []tracing.Option
	guard   []guard.Option
	logs    io.Writer
	locker  func(guard.Locker) guard.Locker
}

func open(t *testing.T, s setup) *shop {
	t.Helper()
	h := &shop{mem: memlocker.New(), spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	h.tp = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(h.spans), sdktrace.WithResource(resource.Empty()),
		sdktrace.WithSampler(cmp.Or(s.sampler, sdktrace.AlwaysSample())))
	h.tracer = h.tp.Tracer("app")
	h.meters = metric.NewMeterProvider(metric.WithReader(h.reader), metric.WithResource(resource.Empty()))
	obs, err := tracing.New(append([]tracing.Option{
		tracing.WithTracerProvider(h.tp), tracing.WithMeterProvider(h.meters),
	}, s.tracing...)...)
	if err != nil {
		t.Fatal(err)
	}
	h.obs = obs
	opts := append([]guard.Option{
		guard.WithName("shop"), guard.WithObserver(obs),
		guard.WithLogger(slog.New(slog.NewJSONHandler(cmp.Or(s.logs, io.Discard),
			&slog.HandlerOptions{Level: slog.LevelDebug}))),
		guard.WithBackoff(time.Hour, time.Hour), // only a wake-up ends a pause
	}, s.guard...)
	if s.locker == nil {
		s.locker = func(l guard.Locker) guard.Locker { return l }
	}
	h.Guard, h.other = h.guard(t, s.locker(h.mem), opts), h.guard(t, s.locker(h.mem.Peer()), opts)
	return h
}

func (h *shop) guard(t *testing.T, l guard.Locker, opts []guard.Option) *guard.Guard {
	t.Helper()
	g := testguard.New(t, l, opts...)
	return g
}

// spanLines describes every ended span of the guard in full.
func (h *shop) spanLines(t *testing.T) []string {
	t.Helper()
	names := map[trace.SpanID]string{}
	for _, s := range h.spans.Started() {
		names[s.SpanContext().SpanID()] = s.Name()
		ours := s.InstrumentationScope().Name == tracing.ScopeName
		if ours && s.EndTime().IsZero() {
			t.Errorf("span %s has not ended", s.Name())
		}
		if ours && s.SpanKind() != trace.SpanKindInternal {
			t.Errorf("span %s is of kind %v", s.Name(), s.SpanKind())
		}
	}
	var lines []string
	for _, s := range h.spans.Ended() {
		if s.InstrumentationScope().Name != tracing.ScopeName {
			continue
		}
		parts := []string{
			s.Name() + " < " + names[s.Parent().SpanID()],
			s.EndTime().Sub(s.StartTime()).String(),
			s.Status().Code.String() + s.Status().Description,
			describe(s.Attributes(), name, exclusive, keyHash),
		}
		for _, l := range s.Links() {
			parts = append(parts, "link to "+names[l.SpanContext.SpanID()]+describe(l.Attributes))
		}
		for _, e := range s.Events() {
			parts = append(parts, fmt.Sprintf("%s at %v %s", e.Name, e.Time.Sub(s.StartTime()), describe(e.Attributes)))
		}
		lines = append(lines, strings.Join(parts, ", "))
	}
	return lines
}

// describe lists attributes in order, without the prefix. It leaves out
// attributes that must have the same values as in same.
func describe(attrs []attribute.KeyValue, same ...attribute.KeyValue) string {
	var parts []string
	for _, a := range same {
		if !slices.Contains(attrs, a) {
			parts = append(parts, "NOT "+string(a.Key)+"="+a.Value.String())
		}
	}
	for _, a := range attrs {
		if a.Key == "guard.attempts" && a.Value.AsInt64() > 1 { // how often a wait looks by itself is chance
			a = a.Key.String("more")
		}
		if !slices.Contains(same, a) {
			parts = append(parts, strings.TrimPrefix(string(a.Key), "guard.")+"="+a.Value.String())
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

var (
	name      = attribute.String("guard.name", "shop")
	exclusive = attribute.String("guard.mode", "exclusive")
	keyHash   = attribute.String("guard.key.hash", guard.KeyHash(key))
)

func (h *shop) collect(t *testing.T) metricdata.ResourceMetrics {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := h.reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	return rm
}

// metricLines describes every point of every metric in order. It leaves out
// guard.waits, which must agree with the histogram.
func (h *shop) metricLines(t *testing.T) []string {
	t.Helper()
	var lines []string
	waits, recorded := map[string]uint64{}, map[string]uint64{}
	for _, scope := range h.collect(t).ScopeMetrics {
		for _, m := range scope.Metrics {
			add := func(set attribute.Set, value any) {
				lines = append(lines, fmt.Sprintf("%s{%s} %v", m.Name, describe(set.ToSlice(), name, exclusive), value))
			}
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, fmt.Sprintf("%d in %.4gs", p.Count, p.Sum))
					if m.Name == "guard.wait.duration" {
						recorded[describe(p.Attributes.ToSlice())] = p.Count
					}
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					switch {
					case p.Value == 0 && data.IsMonotonic: // counters begin with 0
					case m.Name == "guard.waits":
						waits[describe(p.Attributes.ToSlice())] = uint64(p.Value)
					default:
						add(p.Attributes, p.Value)
					}
				}
			}
		}
	}
	if !maps.Equal(waits, recorded) {
		t.Errorf("guard.waits %v, in the histogram %v", waits, recorded)
	}
	slices.Sort(lines)
	return lines
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)) // calls end at the same moment
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func nop(context.Context) error { return nil }

func after(d time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(d); return nil }
}

// stubs are all spans in a form that shows everything when printed.
func (h *shop) stubs() tracetest.SpanStubs {
	return tracetest.SpanStubsFromReadOnlySpans(h.spans.Ended())
}

// lockedBuffer is a log for many concurrent writers.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

package show

import (
	"context"
	"errors"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/go-lockguard/guard/tracing"
)

// telemetry is the OpenTelemetry SDK of an instance: metrics always, for the
// parent's report, and spans if somebody wants to see them.
type telemetry struct {
	metrics *metric.MeterProvider
	reader  *metric.ManualReader
	traces  oteltrace.TracerProvider
	spans   *tracetest.InMemoryExporter // nil: not kept
	stop    []func(context.Context) error
}

// newTelemetry sets the SDK up. Nothing waits for a collector: what it does not
// take is dropped.
func newTelemetry(ctx context.Context, cfg instanceConfig) (*telemetry, error) {
	t := &telemetry{
		reader: metric.NewManualReader(metric.WithAggregationSelector(precise)),
		traces: noop.NewTracerProvider(),
	}
	res := resource.NewSchemaless(
		attribute.String("service.name", "flashsale"), attribute.String("service.instance.id", cfg.Name))
	meters := []metric.Option{metric.WithResource(res), metric.WithReader(t.reader)}
	tracers := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}

	if cfg.OTLP != "" {
		base := strings.TrimSuffix(cfg.OTLP, "/")
		spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base+"/v1/traces"))
		if err != nil {
			return nil, err
		}
		points, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base+"/v1/metrics"))
		if err != nil {
			return nil, err
		}
		tracers = append(tracers, sdktrace.WithBatcher(spans))
		meters = append(meters, metric.WithReader(metric.NewPeriodicReader(points)))
	}
	if cfg.Trace {
		t.spans = tracetest.NewInMemoryExporter()
		tracers = append(tracers, sdktrace.WithSyncer(t.spans))
	}

	t.metrics = metric.NewMeterProvider(meters...)
	t.stop = append(t.stop, t.metrics.Shutdown)
	if cfg.Trace || cfg.OTLP != "" {
		tp := sdktrace.NewTracerProvider(tracers...)
		t.traces = tp
		t.stop = append(t.stop, tp.Shutdown)
	}
	return t, nil
}

// precise makes histograms exact to a few percent for the report; a collector
// gets the buckets that the guard asks for.
func precise(kind metric.InstrumentKind) metric.Aggregation {
	if kind == metric.InstrumentKindHistogram {
		return metric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}
	}
	return metric.DefaultAggregationSelector(kind)
}

func (t *telemetry) observer() (*tracing.Observer, error) {
	return tracing.New(tracing.WithMeterProvider(t.metrics), tracing.WithTracerProvider(t.traces))
}

// redisHook makes spans of requests to Redis.
func (t *telemetry) redisHook() redis.Hook { return redisHook{t.traces.Tracer("flashsale")} }

// close sends what has not been sent, at most until ctx ends.
func (t *telemetry) close(ctx context.Context) error {
	var errs []error
	for _, stop := range t.stop {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}

// serveStats answers with the guard's metrics so far.
func (t *telemetry) serveStats(c *gin.Context) {
	var rm metricdata.ResourceMetrics
	if err := t.reader.Collect(c.Request.Context(), &rm); err != nil {
		c.String(http.StatusInternalServerError, err.Error())
		return
	}
	c.JSON(http.StatusOK, statsOf(rm))
}

// serveSpans answers with the spans so far.
func (t *telemetry) serveSpans(c *gin.Context) {
	spans := []traced{}
	if t.spans != nil {
		spans = spansOf(t.spans.GetSpans())
	}
	c.JSON(http.StatusOK, spans)
}

// redisHook makes a span of each request to Redis: names of commands, never
// their arguments, which are keys and owner ids. One is in the shop's client,
// one in the guard's own.
type redisHook struct{ tracer trace.Tracer }

func (h redisHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.span(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (h redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		return h.span(ctx, strings.Join(names, "+"), func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (h redisHook) span(ctx context.Context, name string, do func(context.Context) error) error {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return do(ctx) // in the background: renewals, subscriptions
	}
	ctx, span := h.tracer.Start(ctx, "redis "+name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", name)))
	defer span.End()
	err := do(ctx)
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		span.SetStatus(codes.Error, "")
	}
	return err
}

// stats are what the guard's metrics say about an instance, or about several.
type stats struct {
	Waits      histogram // for the key, of all callers: those refused waited too
	Holds      histogram
	LeasesLost int64
}

func statsOf(rm metricdata.ResourceMetrics) (s stats) {
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch m.Name {
			case "guard.wait.duration":
				s.Waits.addAll(m.Data)
			case "guard.hold.duration":
				s.Holds.addAll(m.Data)
			case "guard.leases.lost":
				for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
					s.LeasesLost += p.Value
				}
			}
		}
	}
	return s
}

func (s *stats) add(other stats) {
	s.Waits.add(other.Waits)
	s.Holds.add(other.Holds)
	s.LeasesLost += other.LeasesLost
}

// histogram is an exponential one: bucket i counts the values above base^i
// seconds, up to base^(i+1), with base = 2^(2^-Scale).
type histogram struct {
	Scale   int32
	Zero    uint64 // values of 0
	Buckets map[int32]uint64
}

// addAll adds the points of all outcomes. Those of readers are no buyers'.
func (h *histogram) addAll(data metricdata.Aggregation) {
	for _, p := range data.(metricdata.ExponentialHistogram[float64]).DataPoints {
		if mode, _ := p.Attributes.Value("guard.mode"); mode.AsString() == "shared" {
			continue
		}
		one := histogram{Scale: p.Scale, Zero: p.ZeroCount, Buckets: map[int32]uint64{}}
		for i, n := range p.PositiveBucket.Counts {
			if n > 0 {
				one.Buckets[p.PositiveBucket.Offset+int32(i)] = n
			}
		}
		h.add(one)
	}
}

// add merges other into h, at the coarser of their scales: one step coarser
// joins two buckets.
func (h *histogram) add(other histogram) {
	scale := min(h.Scale, other.Scale)
	if h.Buckets == nil {
		scale = other.Scale
	}
	merged := map[int32]uint64{}
	for _, from := range []histogram{*h, other} {
		for i, n := range from.Buckets {
			merged[i>>(from.Scale-scale)] += n
		}
	}
	*h = histogram{Scale: scale, Zero: h.Zero + other.Zero, Buckets: merged}
}

// quantile returns the q-quantile, 0 of nothing: the middle of the bucket that
// it is in.
func (h histogram) quantile(q float64) time.Duration {
	total := h.Zero
	for _, n := range h.Buckets {
		total += n
	}
	rank := uint64(math.Ceil(q * float64(total)))
	seen := h.Zero
	if rank <= seen {
		return 0
	}
	for _, i := range slices.Sorted(maps.Keys(h.Buckets)) {
		if seen += h.Buckets[i]; seen >= rank {
			seconds := math.Exp2((float64(i) + 0.5) * math.Exp2(-float64(h.Scale)))
			return time.Duration(seconds * float64(time.Second))
		}
	}
	return 0
}

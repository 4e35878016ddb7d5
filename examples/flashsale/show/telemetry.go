package show

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
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

package show

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/go-lockguard/guard/tracing"
)

// telemetry is the OpenTelemetry SDK of an instance, if somebody wants to see
// its spans and metrics.
type telemetry struct {
	traces   trace.TracerProvider
	observer *tracing.Observer           // of the guard; nil: nobody looks
	spans    *tracetest.InMemoryExporter // nil: not kept
	stop     []func(context.Context) error
}

// newTelemetry sets the SDK up. Nothing waits for a collector: what it does not
// take is dropped.
func newTelemetry(ctx context.Context, cfg instanceConfig) (*telemetry, error) {
	t := &telemetry{traces: noop.NewTracerProvider()}
	if !cfg.Trace && cfg.OTLP == "" {
		return t, nil
	}
	res := resource.NewSchemaless(
		attribute.String("service.name", "flashsale"), attribute.String("service.instance.id", cfg.Name))
	meters := []metric.Option{metric.WithResource(res)}
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
	mp, tp := metric.NewMeterProvider(meters...), sdktrace.NewTracerProvider(tracers...)
	t.traces, t.stop = tp, []func(context.Context) error{mp.Shutdown, tp.Shutdown}
	var err error
	t.observer, err = tracing.New(tracing.WithMeterProvider(mp), tracing.WithTracerProvider(tp))
	return t, err
}

// close sends what has not been sent, at most until ctx ends.
func (t *telemetry) close(ctx context.Context) error {
	var errs []error
	for _, stop := range t.stop {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
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

func (t *telemetry) redisHook() redis.Hook { return redisHook{t.traces.Tracer("flashsale")} }

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

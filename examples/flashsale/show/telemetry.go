package show

import (
	"context"
	"errors"
	"strings"

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
// its spans and metrics. As a hook of the shop's Redis client and of the guard's
// own, telemetry makes a span of each request: names of commands, never their
// arguments, which are keys and owner ids.
type telemetry struct {
	traces   trace.TracerProvider
	observer *tracing.Observer           // of the guard; nil: nobody looks
	spans    *tracetest.InMemoryExporter // nil: not kept
	close    func(context.Context) error // sends what has not been sent, at most until the context ends
}

// newTelemetry sets the SDK up. Nothing waits for a collector: what it does not
// take is dropped.
func newTelemetry(ctx context.Context, cfg instanceConfig) (*telemetry, error) {
	t := &telemetry{traces: noop.NewTracerProvider(), close: func(context.Context) error { return nil }}
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
	t.traces = tp
	t.close = func(ctx context.Context) error { return errors.Join(mp.Shutdown(ctx), tp.Shutdown(ctx)) }
	var err error
	t.observer, err = tracing.New(tracing.WithMeterProvider(mp), tracing.WithTracerProvider(tp))
	return t, err
}

// DialHook implements [redis.Hook].
func (t *telemetry) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (t *telemetry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return t.span(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (t *telemetry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		return t.span(ctx, strings.Join(names, "+"), func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (t *telemetry) span(ctx context.Context, name string, do func(context.Context) error) error {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return do(ctx) // in the background: renewals, subscriptions
	}
	ctx, span := t.traces.Tracer("flashsale").Start(ctx, "redis "+name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", name)))
	defer span.End()
	err := do(ctx)
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		span.SetStatus(codes.Error, "")
	}
	return err
}

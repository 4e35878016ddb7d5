package tracing_test

import (
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/tracing"
)

type benchCase struct {
	name     string
	observer guard.Observer
}

func benchCases(b *testing.B) []benchCase {
	b.Helper()
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	observer := func(opts ...tracing.Option) guard.Observer {
		obs, err := tracing.New(opts...)
		if err != nil {
			b.Fatal(err)
		}
		return obs
	}
	sdk := func(s sdktrace.Sampler) guard.Observer {
		return observer(tracing.WithMeterProvider(meters),
			tracing.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(s))))
	}
	return []benchCase{
		{"no-op observer", guard.NopObserver{}},
		{"no-op providers", observer(tracing.WithTracerProvider(noop.NewTracerProvider()),
			tracing.WithMeterProvider(metricnoop.NewMeterProvider()))},
		{"global providers, no SDK", observer()},
		{"SDK, unsampled", sdk(sdktrace.NeverSample())},
		{"SDK, sampled", sdk(sdktrace.AlwaysSample())},
	}
}

// This is the time of a Do that does nothing, on a locker without a network.
func BenchmarkDo(b *testing.B) {
	for _, c := range append([]benchCase{{name: "bare"}}, benchCases(b)...) {
		b.Run(c.name, func(b *testing.B) {
			var opts []guard.Option
			if c.observer != nil {
				opts = append(opts, guard.WithObserver(c.observer))
			}
			g, err := guard.New(memlocker.New(), opts...)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := g.Do(b.Context(), key, nop); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// This is the time that telemetry adds to a Do, measured on the hooks alone.
func BenchmarkHooks(b *testing.B) {
	for _, c := range benchCases(b) {
		b.Run(c.name, func(b *testing.B) {
			w := guard.WaitInfo{Name: "shop", Key: key}
			b.ReportAllocs()
			for b.Loop() {
				ctx := c.observer.WaitStart(b.Context(), w)
				_ = c.observer.Traceparent(ctx)
				c.observer.WaitEnd(ctx, w, guard.WaitResult{Attempts: 1})
				ctx = c.observer.HoldStart(b.Context(), w)
				c.observer.HoldEnd(ctx, w, guard.HoldResult{})
			}
		})
	}
}

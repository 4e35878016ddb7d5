package tracing_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/tracing"
)

// Without options the spans and metrics go to the global providers.
func ExampleNew() {
	spans := tracetest.NewInMemoryExporter() // your exporter
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx := context.Background()
	defer func() { _ = provider.Shutdown(ctx) }()

	obs, err := tracing.New(tracing.WithTracerProvider(provider))
	if err != nil {
		panic(err)
	}
	g, err := guard.New(memlocker.New(), guard.WithName("stock"), guard.WithObserver(obs))
	if err != nil {
		panic(err)
	}
	defer g.Close(ctx)

	err = g.Do(ctx, guard.Key("stock", "4711"), func(ctx context.Context) error {
		_, span := provider.Tracer("shop").Start(ctx, "deduct") // a child of the hold
		defer span.End()
		return nil
	})
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	fmt.Println(err)
	// Output:
	// acquire stock
	// deduct
	// hold stock
	// <nil>
}

// Package otlp sends what the flash sale measures to an OpenTelemetry
// collector. Its dependencies take as long to build as the rest of the sale, so
// only a build with the tag otlp has it:
//
//	go run -tags otlp ./examples/flashsale -otlp http://localhost:4318
package otlp

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Exporters returns exporters to the collector at a URL. They connect when they
// have something to send.
func Exporters(ctx context.Context, collector string) (trace.SpanExporter, metric.Exporter, error) {
	base := strings.TrimSuffix(collector, "/")
	spans, err1 := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base+"/v1/traces"))
	points, err2 := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base+"/v1/metrics"))
	return spans, points, errors.Join(err1, err2)
}

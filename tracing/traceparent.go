package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// header carries a W3C traceparent to and from the library that knows its
// format. It does not carry a tracestate.
type header string

const traceparent = "traceparent"

func (h *header) Get(key string) string {
	if key == traceparent {
		return string(*h)
	}
	return ""
}

func (h *header) Set(key, value string) {
	if key == traceparent {
		*h = header(value)
	}
}

func (h *header) Keys() []string { return []string{traceparent} }

// parse returns the span that a holder left beside its key, or an invalid one.
func parse(h header) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), &h) //nolint:forbidigo // only to unwrap the result
	return trace.SpanContextFromContext(ctx)
}

// Traceparent returns the span of ctx if it is sampled, and "" otherwise.
// Waiters for the key can link to that span.
func (o *Observer) Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	var h header
	propagation.TraceContext{}.Inject(ctx, &h)
	return string(h)
}

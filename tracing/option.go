package tracing

import (
	"errors"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Option changes one setting of [New].
type Option interface {
	apply(*config)
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	keys       bool
	attributes []attribute.KeyValue
}

var errNilOption = errors.New("tracing: option is nil")

// newConfig returns the configuration for opts. The global providers stand in
// for providers that may be set later.
func newConfig(opts []Option) (config, error) {
	c := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, o := range opts {
		if o == nil {
			return config{}, errNilOption
		}
		o.apply(&c)
	}
	return c, nil
}

// WithTracerProvider sets the provider of tracers for spans. nil is ignored.
// Default is the global provider, even if it is set later.
func WithTracerProvider(p trace.TracerProvider) Option {
	return optionFunc(func(c *config) {
		if p != nil {
			c.tracers = p
		}
	})
}

// WithMeterProvider sets the provider of meters for metrics. nil is ignored.
// Default is the global provider, even if it is set later.
func WithMeterProvider(p metric.MeterProvider) Option {
	return optionFunc(func(c *config) {
		if p != nil {
			c.meters = p
		}
	})
}

// WithKeys adds the attribute guard.key, which is the key itself, to spans.
// A key may name a customer. Traces are often read by more people than the
// database, and kept elsewhere. By default it is off, and [guard.KeyHash] finds
// a key that you know. A key is cut after 256 bytes, and bytes that are not
// UTF-8 are replaced.
func WithKeys() Option {
	return optionFunc(func(c *config) { c.keys = true })
}

// WithAttributes adds fixed attributes to every span and every metric. They
// must not differ from call to call, because each combination of values is a
// series of its own.
func WithAttributes(attrs ...attribute.KeyValue) Option {
	return optionFunc(func(c *config) { c.attributes = slices.Concat(c.attributes, attrs) })
}

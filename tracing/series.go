package tracing

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-lockguard/guard/internal/loss"
)

const (
	nameKey     = attribute.Key("guard.name")
	outcomeKey  = attribute.Key("guard.outcome")
	attemptsKey = attribute.Key("guard.attempts")
	handoffKey  = attribute.Key("guard.handoff")
	keyHashKey  = attribute.Key("guard.key.hash")
	rawKeyKey   = attribute.Key("guard.key")
	leftKey     = attribute.Key("guard.renewal.left")
	reasonKey   = attribute.Key("guard.reason")
)

// A series has the attributes that all calls with one guard name share. It is
// made once, so that recording allocates nothing.
type series struct {
	acquire, hold string // names of spans
	start         []trace.SpanStartOption
	now           []metric.AddOption // for gauges of the present state: name
	observe       []metric.ObserveOption
	zero          sync.Once // makes the counters exist
	holds         holds
	waits         [waitOutcomes]atomic.Int64           // ended waits
	tell          [waitOutcomes][]metric.ObserveOption // name and outcome
	record        [outcomes][]metric.RecordOption      // name and outcome
	count         [outcomes][]metric.AddOption
	losses        map[loss.Reason][]metric.AddOption // name, outcome and reason
}

func newSeries(name string, fixed []attribute.KeyValue) *series {
	attrs := append(slices.Clip(fixed), nameKey.String(name))
	only := metric.WithAttributeSet(attribute.NewSet(slices.Clone(attrs)...))
	s := &series{
		acquire: "acquire " + name,
		hold:    "hold " + name,
		start:   []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...)},
		now:     []metric.AddOption{only},
		observe: []metric.ObserveOption{only},
		losses:  make(map[loss.Reason][]metric.AddOption),
	}
	for _, r := range loss.Reasons() {
		set := attribute.NewSet(append(slices.Clone(attrs), outcomeKey.String(lossOutcome(r).String()),
			reasonKey.String(string(r)))...)
		s.losses[r] = []metric.AddOption{metric.WithAttributeSet(set)}
	}
	for o := range outcomes {
		set := metric.WithAttributeSet(attribute.NewSet(append(slices.Clone(attrs), outcomeKey.String(o.String()))...))
		s.record[o] = []metric.RecordOption{set}
		s.count[o] = []metric.AddOption{set}
		if o < waitOutcomes {
			s.tell[o] = []metric.ObserveOption{set}
		}
	}
	return s
}

// catalog finds the series of a name. A guard has few names. So the map is
// copied for each new name, and read without a lock.
type catalog struct {
	fixed  []attribute.KeyValue
	byName atomic.Pointer[map[string]*series]
	mu     sync.Mutex // held while the map is replaced
}

func (c *catalog) find(name string) *series {
	if m := c.byName.Load(); m != nil {
		if s := (*m)[name]; s != nil {
			return s
		}
	}
	return c.add(name)
}

func (c *catalog) add(name string) *series {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[string]*series)
	if m := c.byName.Load(); m != nil {
		if s := (*m)[name]; s != nil {
			return s
		}
		maps.Copy(next, *m)
	}
	s := newSeries(name, c.fixed)
	next[name] = s
	c.byName.Store(&next)
	return s
}

// all returns all series.
func (c *catalog) all() map[string]*series {
	if m := c.byName.Load(); m != nil {
		return *m
	}
	return nil
}

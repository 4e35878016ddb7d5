package tracing

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
)

const (
	nameKey     = attribute.Key("guard.name")
	modeKey     = attribute.Key("guard.mode")
	permitsKey  = attribute.Key("guard.permits")
	outcomeKey  = attribute.Key("guard.outcome")
	attemptsKey = attribute.Key("guard.attempts")
	handoffKey  = attribute.Key("guard.handoff")
	idleKey     = attribute.Key("guard.idle")
	keyHashKey  = attribute.Key("guard.key.hash")
	rawKeyKey   = attribute.Key("guard.key")
	leftKey     = attribute.Key("guard.renewal.left")
	reasonKey   = attribute.Key("guard.reason")
)

// work is what a series is about: the calls of one mode that have one guard
// name. Both have few values.
type work struct{ name, mode string }

// workOf returns the work that w is part of.
func workOf(w guard.WaitInfo) work { return work{w.Name, w.Mode} }

// exclusive is the mode that a [guard.WaitInfo] has no word for.
const exclusive = "exclusive"

// A series has the attributes that all calls of one work share. It is made
// once, so that recording allocates nothing.
type series struct {
	acquire, hold string // names of spans
	start         []trace.SpanStartOption
	now           []metric.AddOption // for gauges of the present state: name and mode
	observe       []metric.ObserveOption
	zero          sync.Once // makes the counters exist
	holds         holds
	idled         atomic.Bool                          // a key of it has been idle
	waits         [waitOutcomes]atomic.Int64           // ended waits
	tell          [waitOutcomes][]metric.ObserveOption // and outcome
	record        [outcomes][]metric.RecordOption      // the same
	count         [outcomes][]metric.AddOption
	losses        map[errnote.Loss][]metric.AddOption // and reason
}

// textMax is how much of a key or a name is told, in bytes.
const textMax = 256

// text returns s as an exporter can send it. OTLP refuses a whole batch for one
// string that is not UTF-8, and keys may come from a request.
func text(s string) string {
	if len(s) > textMax {
		s = s[:textMax] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func newSeries(of work, fixed []attribute.KeyValue) *series {
	name := text(of.name)
	attrs := append(slices.Clip(fixed), nameKey.String(name), modeKey.String(cmp.Or(of.mode, exclusive)))
	only := metric.WithAttributeSet(attribute.NewSet(slices.Clone(attrs)...))
	s := &series{
		acquire: "acquire " + name,
		hold:    "hold " + name,
		start:   []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...)},
		now:     []metric.AddOption{only},
		observe: []metric.ObserveOption{only},
		losses:  make(map[errnote.Loss][]metric.AddOption),
	}
	for _, r := range errnote.Losses() {
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

// catalog finds the series of a work. There are few. So the map is copied for
// each new one, and read without a lock.
type catalog struct {
	fixed  []attribute.KeyValue
	byWork atomic.Pointer[map[work]*series]
	mu     sync.Mutex // held while the map is replaced
}

func (c *catalog) find(of work) *series {
	if m := c.byWork.Load(); m != nil {
		if s := (*m)[of]; s != nil {
			return s
		}
	}
	return c.add(of)
}

func (c *catalog) add(of work) *series {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[work]*series)
	if m := c.byWork.Load(); m != nil {
		if s := (*m)[of]; s != nil {
			return s
		}
		maps.Copy(next, *m)
	}
	s := newSeries(of, c.fixed)
	next[of] = s
	c.byWork.Store(&next)
	return s
}

// all returns all series.
func (c *catalog) all() map[work]*series {
	if m := c.byWork.Load(); m != nil {
		return *m
	}
	return nil
}

package tracing

import (
	"context"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/go-lockguard/guard"
)

// ScopeName is the instrumentation scope of everything that this package emits.
const ScopeName = "github.com/go-lockguard/guard/tracing"

// Observer is a [guard.Observer] that makes spans and metrics. One Observer may
// serve many guards, which differ by their names. It is safe for concurrent
// use.
type Observer struct {
	tracer  trace.Tracer // nil if there will be no spans
	in      instruments
	catalog catalog
	idlers  idlers
	keys    bool
}

var (
	_ guard.Observer     = (*Observer)(nil)
	_ guard.NameObserver = (*Observer)(nil)
	_ guard.IdleObserver = (*Observer)(nil)
)

// New returns an Observer for [guard.WithObserver]. It returns an error if an
// option is nil, or if the meter provider refuses an instrument.
func New(opts ...Option) (*Observer, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	v := version()
	o := &Observer{catalog: catalog{fixed: c.attributes}, keys: c.keys}
	meter := c.meters.Meter(ScopeName, metric.WithInstrumentationVersion(v), metric.WithSchemaURL(semconv.SchemaURL))
	if o.in, err = newInstruments(meter); err != nil {
		return nil, err
	}
	// The callback is not an option of the instruments. Before there is a
	// global provider, the callbacks of a second observer would be forgotten.
	if _, err := meter.RegisterCallback(o.collect, o.in.waits, o.in.holdOldest, o.in.holdLimit,
		o.in.keysIdle); err != nil {
		return nil, err
	}
	o.tracer = c.tracers.Tracer(ScopeName, trace.WithInstrumentationVersion(v), trace.WithSchemaURL(semconv.SchemaURL))
	if _, ok := o.tracer.(noop.Tracer); ok {
		o.tracer = nil
	}
	return o, nil
}

// version returns the version of the module. It is "(devel)" in a build of the
// module's own checkout.
func version() string {
	const module = "github.com/go-lockguard/guard"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "(devel)"
}

// A stage is the context of one wait or hold. It keeps what the end of the wait
// or hold must know of its start.
type stage struct {
	context.Context
	of      *Observer
	series  *series
	span    trace.Span // nil if it is not recorded
	counted bool       // the gauge of waits or holds includes it now

	// For a hold that is counted: its start and MaxHold, and its neighbours in
	// the list of holds.
	since      time.Time
	limit      time.Duration
	prev, next *stage
}

// Value finds the stage by its Observer. So several observers on one guard do
// not find each other's stages.
func (s *stage) Value(key any) any {
	if key == any(s.of) {
		return s
	}
	return s.Context.Value(key)
}

// stage returns the stage that start has left in ctx, or nil if there is none.
func (o *Observer) stage(ctx context.Context) *stage {
	s, _ := ctx.Value(o).(*stage)
	if s == nil || s.series == nil {
		return nil
	}
	return s
}

// start begins a span. It also counts the call with gauge, unless gauge is nil
// or disabled. st is nil if nothing is left in the context.
func (o *Observer) start(
	ctx context.Context, w guard.WaitInfo, name string, s *series, gauge metric.Int64UpDownCounter,
) (started context.Context, st *stage) {
	ctx, span := o.startSpan(ctx, w, name, s)
	counted := gauge != nil && gauge.Enabled(ctx)
	if counted {
		gauge.Add(ctx, 1, s.now...)
	} else if span == nil {
		if ctx.Value(o) == nil {
			return ctx, nil
		}
		s = nil // an empty stage hides the one around it
	}
	st = &stage{Context: ctx, of: o, series: s, span: span, counted: counted}
	return st, st
}

// startSpan begins a span and returns nil if the span is not recorded. The
// context passes that decision on to the spans below.
func (o *Observer) startSpan(ctx context.Context, w guard.WaitInfo, name string,
	s *series,
) (context.Context, trace.Span) {
	if o.tracer == nil {
		return ctx, nil
	}
	ctx, span := o.tracer.Start(ctx, name, s.start...)
	if !span.IsRecording() {
		span.End()
		return ctx, nil
	}
	span.SetAttributes(keyHashKey.String(guard.KeyHash(w.Key)))
	if w.Permits > 0 {
		span.SetAttributes(permitsKey.Int(w.Permits))
	}
	if o.keys {
		span.SetAttributes(rawKeyKey.String(text(w.Key)))
	}
	return ctx, span
}

// GuardNamed makes the metrics of a guard exist before its first call. They are
// those of exclusive calls. Those of another mode exist from its first call on.
func (o *Observer) GuardNamed(name string) { o.catalog.find(work{name: name}) }

// ObserveIdle lets each collection ask family for its idle keys.
func (o *Observer) ObserveIdle(family guard.IdleKeys) { o.idlers.add(family) }

// WaitStart begins the span "acquire {name}".
func (o *Observer) WaitStart(ctx context.Context, w guard.WaitInfo) context.Context {
	s := o.catalog.find(workOf(w))
	ctx, _ = o.start(ctx, w, s.acquire, s, o.in.waiters)
	return ctx
}

// WaitEnd ends that span and records the wait. It links the span to the holder
// that was in the way, and to the hold that made the result which the call got.
func (o *Observer) WaitEnd(ctx context.Context, w guard.WaitInfo, r guard.WaitResult) {
	st := o.stage(ctx)
	if st != nil && st.counted {
		o.in.waiters.Add(ctx, -1, st.series.now...)
	}
	out, s := waitOutcome(w, r), o.catalog.find(workOf(w))
	s.waits[out].Add(1)
	o.countResult(ctx, w, out)
	if o.in.waitDuration.Enabled(ctx) {
		o.in.waitDuration.Record(ctx, r.Waited.Seconds(), s.record[out]...)
	}
	if st == nil || st.span == nil {
		return
	}
	for _, header := range []header{header(r.Blocker.Traceparent), header(r.Origin)} {
		if span := parse(header); span.IsValid() {
			st.span.AddLink(trace.Link{SpanContext: span})
		}
	}
	if r.Idle {
		st.span.SetAttributes(idleKey.Bool(true))
	}
	st.end(out, out.failedWait(), r.Err, attemptsKey.Int(r.Attempts), handoffKey.Bool(r.Handoff))
}

// countResult counts the outcomes that only a call of guard.Once has.
func (o *Observer) countResult(ctx context.Context, w guard.WaitInfo, out outcome) {
	ours := out == replayed || out == joined || out == recorded || out == notRecorded
	if ours && o.in.results.Enabled(ctx) {
		o.in.results.Add(ctx, 1, o.catalog.find(workOf(w)).count[out]...)
	}
}

// end ends the span of s.
func (s *stage) end(out outcome, failed bool, err error, attrs ...attribute.KeyValue) {
	attrs = append(attrs, outcomeKey.String(out.String()))
	if failed {
		attrs = append(attrs, errorType(out, err))
		s.span.SetStatus(codes.Error, "")
	}
	s.span.SetAttributes(attrs...)
	s.span.End()
}

// HoldStart begins the span "hold {name}", which is the parent of the
// function's spans. A call that runs inside another lease has a span too. It is
// not counted, because it holds nothing of its own.
func (o *Observer) HoldStart(ctx context.Context, w guard.WaitInfo) context.Context {
	s := o.catalog.find(workOf(w))
	gauge := o.in.leases
	if w.Reentry {
		gauge = nil
	}
	ctx, st := o.start(ctx, w, s.hold, s, gauge)
	if st != nil && st.counted {
		st.limit = w.MaxHold
		s.holds.add(st)
	}
	return ctx
}

// LeaseLost counts the loss and marks the moment on the span.
func (o *Observer) LeaseLost(ctx context.Context, w guard.WaitInfo, err error) {
	reason := lossReason(err)
	if !w.Reentry && o.in.leasesLost.Enabled(ctx) {
		o.in.leasesLost.Add(ctx, 1, o.catalog.find(workOf(w)).losses[reason]...)
	}
	if st := o.stage(ctx); st != nil && st.span != nil {
		st.span.AddEvent("guard.lost", trace.WithAttributes(
			outcomeKey.String(lossOutcome(reason).String()), reasonKey.String(string(reason))))
	}
}

// HoldEnd ends the span and records the hold.
func (o *Observer) HoldEnd(ctx context.Context, w guard.WaitInfo, r guard.HoldResult) {
	st := o.stage(ctx)
	if st != nil && st.counted {
		st.series.holds.remove(st)
		o.in.leases.Add(ctx, -1, st.series.now...)
	}
	out := holdOutcome(r)
	o.countResult(ctx, w, out)
	if !w.Reentry && o.in.holdDuration.Enabled(ctx) {
		o.in.holdDuration.Record(ctx, r.Held.Seconds(), o.catalog.find(workOf(w)).record[out]...)
	}
	if st != nil && st.span != nil {
		st.end(out, out.failedHold(), r.Err)
	}
}

// Renewed counts the try. A try that failed or came late is a span event. Other
// tries are none, because they would only say that all is well.
func (o *Observer) Renewed(ctx context.Context, w guard.WaitInfo, r guard.RenewResult) {
	out := renewOutcome(r.Err)
	if o.in.renewals.Enabled(ctx) {
		o.in.renewals.Add(ctx, 1, o.catalog.find(workOf(w)).count[out]...)
	}
	if out == renewed && !r.Late || out == lost { // a loss is an event of its own
		return
	}
	if st := o.stage(ctx); st != nil && st.span != nil {
		st.span.AddEvent("guard.renewal", trace.WithAttributes(
			outcomeKey.String(out.String()), leftKey.Float64(max(0, r.Left.Seconds()))))
	}
}

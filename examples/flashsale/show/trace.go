package show

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/tracing"
)

// traced is a span as an instance tells the parent about it. Ids are
// hexadecimal.
type traced struct {
	Instance string
	Trace    string
	ID       string
	Parent   string
	Name     string
	From, To time.Time
	Attrs    map[string]string
	Links    []string // ids of spans
}

func spansOf(stubs tracetest.SpanStubs) []traced {
	spans := make([]traced, len(stubs)) // not nil, which would be null in JSON
	for i, s := range stubs {
		instance, _ := s.Resource.Set().Value("service.instance.id")
		spans[i] = traced{
			Instance: instance.AsString(),
			Trace:    s.SpanContext.TraceID().String(), ID: s.SpanContext.SpanID().String(),
			Parent: s.Parent.SpanID().String(),
			Name:   s.Name, From: s.StartTime, To: s.EndTime, Attrs: map[string]string{},
		}
		for _, a := range s.Attributes {
			spans[i].Attrs[string(a.Key)] = a.Value.String()
		}
		for _, l := range s.Links {
			spans[i].Links = append(spans[i].Links, l.SpanContext.SpanID().String())
		}
	}
	return spans
}

func (s traced) took() time.Duration { return s.To.Sub(s.From) }

func (s traced) redis() bool { return strings.HasPrefix(s.Name, "redis ") }

// Names of the guard's spans here.
const (
	acquireSpan = "acquire stock"
	holdSpan    = "hold stock"
)

// book is all that the instances have seen.
type book struct {
	*console
	spans []traced
	byID  map[string]traced
	holds map[string]traced // by the id of the request, which is the parent of both spans
}

func newBook(spans []traced, con *console) *book {
	slices.SortStableFunc(spans, func(a, b traced) int { return a.From.Compare(b.From) })
	t := &book{console: con, spans: spans, byID: map[string]traced{}, holds: map[string]traced{}}
	for _, s := range spans {
		t.byID[s.ID] = s
		if s.Name == holdSpan {
			t.holds[s.Parent] = s
		}
	}
	return t
}

// waiter returns the buyer who waited longest, at last behind another instance,
// and then did more than find it sold out: its acquire span, and the one that
// this links to.
func (t *book) waiter() (wait, behind traced, found bool) {
	for _, s := range t.spans {
		if s.Name != acquireSpan || s.Attrs["guard.outcome"] != "acquired" || len(s.Links) == 0 ||
			s.Attrs["guard.mode"] == "shared" { // a viewer
			continue
		}
		holder, ok := t.byID[s.Links[0]]
		_, held := t.holds[holder.Parent]
		if ok && held && len(t.children(t.holds[s.Parent])) > 1 && holder.Instance != s.Instance &&
			(!found || s.took() > wait.took()) {
			wait, behind, found = s, holder, true
		}
	}
	return wait, behind, found
}

// where returns the spans for which is holds, in the order of their beginning.
func (t *book) where(is func(s traced) bool) (found []traced) {
	for _, s := range t.spans {
		if is(s) {
			found = append(found, s)
		}
	}
	return found
}

// children returns the spans right below parent.
func (t *book) children(parent traced) []traced {
	return t.where(func(s traced) bool { return s.Trace == parent.Trace && s.Parent == parent.ID })
}

// Widths of a lane of the waterfall. The title stands behind it, where fit can
// wrap it.
const (
	mostWaterfall  = 48
	leastWaterfall = 12
)

// A row of the waterfall is one span, or several of one kind that are told
// together.
type row struct {
	instance string
	depth    int
	name     string
	mark     byte
	spans    []traced
	note     string
}

// spans asks the instances for all that they have seen. One that is dead has
// taken it along.
func (s *sale) spans(ctx context.Context) (all []traced) {
	for _, in := range s.fleet {
		var spans []traced
		if shop.GetJSON(ctx, s.http, in.url+"/spans", &spans) == nil {
			all = append(all, spans...)
		}
	}
	return all
}

// printTrace tells one buyer's wait from the spans of the instances: what the
// request did, and who was in its way.
func printTrace(con *console, all []traced) {
	t := newBook(all, con)
	wait, behind, found := t.waiter()
	if !found {
		con.printf("\n%s\n", con.say("trace.none"))
		return
	}
	request := t.byID[wait.Parent]
	con.printf("\n%s  %s\n", con.paint(bold, con.say("trace.title")), con.say("trace", "trace", request.Trace,
		"waited", ms(wait.took()), "took", ms(request.took()), "behind", behind.Instance))
	con.printf("%s\n", con.say("trace.legend", "spans", len(all)))
	con.narrow()
	printRows(con, t.rows(request, wait, behind), request)
}

// printRows draws the rows over the time of the request. A name is set in as
// far as its row is below the request.
func printRows(con *console, rows []row, request traced) {
	width := min(mostWaterfall, max(leastWaterfall, con.width-90))
	for _, r := range rows {
		con.printf("  %-7s|%s| %8s ms  \t%s%s  %s\n", r.instance,
			con.paintLane(r.lane(request.From, request.To, width)), ms(r.took()),
			strings.Repeat("  ", r.depth), r.name, con.paint(dim, r.note))
	}
}

// rows tells the request from top to bottom, and below the wait, who was in its
// way.
func (t *book) rows(request, wait, behind traced) []row {
	rows := []row{{instance: request.Instance, name: request.Name, mark: '.', spans: []traced{request}}}
	var below func(parent traced, depth int)
	below = func(parent traced, depth int) {
		for _, r := range t.together(t.children(parent), depth) {
			s := r.spans[0]
			if first := t.children(s); s.ID == wait.ID && len(first) > 0 {
				r.note += t.say("trace.line", "ms", ms(first[0].From.Sub(s.From)))
			}
			rows = append(rows, r)
			if !s.redis() {
				below(s, depth+1)
			}
			if s.ID == wait.ID {
				rows = append(rows, t.blockers(wait, behind, depth+1)...)
			}
		}
	}
	below(request, 1)
	return rows
}

// together makes rows of siblings; the requests to Redis of one kind share one.
func (t *book) together(siblings []traced, depth int) (rows []row) {
	shared := map[string]int{}
	for _, s := range siblings {
		if i, ok := shared[s.Name]; ok {
			rows[i].spans = append(rows[i].spans, s)
			rows[i].note = t.say("trace.requests", "requests", len(rows[i].spans))
			continue
		}
		r := row{instance: s.Instance, depth: depth, name: s.Name, mark: '+', spans: []traced{s}}
		switch {
		case s.redis():
			shared[s.Name] = len(rows)
		case s.Name == acquireSpan:
			r.mark = '~'
			r.note = t.say("trace.tries", "outcome", s.Attrs["guard.outcome"], "tries", s.Attrs["guard.attempts"])
		case s.Name == holdSpan:
			r.mark, r.note = '#', s.Attrs["guard.outcome"]
		default:
			r.mark = '.'
		}
		rows = append(rows, r)
	}
	return rows
}

// blockers are the turns of the instance that the wait links to, up to the end
// of the wait.
func (t *book) blockers(wait, behind traced, depth int) []row {
	hold := t.holds[behind.Parent]
	rows := []row{{behind.Instance, depth, "link: " + holdSpan, '#', []traced{hold}, "trace " + behind.Trace}}
	more := t.where(func(s traced) bool {
		return s.Name == holdSpan && s.Instance == behind.Instance && !s.From.Before(hold.To) && s.From.Before(wait.To)
	})
	if len(more) > 0 {
		note := t.say("trace.them", "turns", len(more))
		rows = append(rows, row{behind.Instance, depth, t.say("trace.turns"), '#', more, note})
	}
	return rows
}

func (r row) took() (sum time.Duration) {
	for _, s := range r.spans {
		sum += s.took()
	}
	return sum
}

// lane draws the row's spans between two moments; what began before is cut off.
// A span that is shorter than a column is shown too.
func (r row) lane(from, to time.Time, width int) []byte {
	step := to.Sub(from).Microseconds()/int64(width) + 1
	var all []stretch
	for _, s := range r.spans {
		x := stretch{max(0, s.From.Sub(from).Microseconds()), s.To.Sub(from).Microseconds(), r.mark}
		if 0 <= x.to && x.to < x.from+step {
			x.to = x.from
		}
		all = append(all, x)
	}
	return drawLane(all, 0, step, width)
}

// ms writes a duration in ms.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }

// telemetry is the OpenTelemetry SDK of an instance, if somebody wants to see
// its spans and metrics. As a hook of the shop's Redis client and of the
// guard's own, telemetry makes a span of each request: names of commands, never
// their arguments, which are keys and owner ids.
type telemetry struct {
	traces   trace.TracerProvider
	observer *tracing.Observer           // of the guard; nil: nobody looks
	spans    *tracetest.InMemoryExporter // nil: not kept
	close    func(context.Context) error // sends what has not been sent, at most until the context ends
}

// Exporters makes the exporters to the collector at a URL. A build without the
// tag otlp has none: see package otlp. Main reads it; set it before.
var Exporters func(ctx context.Context, collector string) (sdktrace.SpanExporter, metric.Exporter, error)

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
		spans, points, err := Exporters(ctx, cfg.OTLP)
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

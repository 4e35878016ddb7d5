package show

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
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
	spans []traced
	byID  map[string]traced
}

func newBook(spans []traced) *book {
	slices.SortStableFunc(spans, func(a, b traced) int { return a.From.Compare(b.From) })
	t := &book{spans: spans, byID: map[string]traced{}}
	for _, s := range spans {
		t.byID[s.ID] = s
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
		_, held := t.hold(holder)
		hold, _ := t.hold(s)
		if ok && held && len(t.children(hold)) > 1 && holder.Instance != s.Instance &&
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

// hold returns the hold that an acquire span led to.
func (t *book) hold(acquire traced) (traced, bool) {
	holds := t.where(func(s traced) bool {
		return s.Name == holdSpan && s.Trace == acquire.Trace && s.Parent == acquire.Parent
	})
	return append(holds, traced{})[0], len(holds) > 0
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
		if in.ask(ctx, s.buyers.http, "/spans", &spans) == nil {
			all = append(all, spans...)
		}
	}
	return all
}

// printTrace tells one buyer's wait from the spans of the instances: what the
// request did, and who was in its way.
func printTrace(con *console, all []traced) {
	t := newBook(all)
	wait, behind, found := t.waiter()
	if !found {
		con.printf("\nNobody waited for another instance: there is nothing to trace. Try more buyers, -concurrency.\n")
		return
	}
	request := t.byID[wait.Parent]
	con.printf("\n%s  trace %s: waited %.1f of %.1f ms, at last behind %s\n", con.paint(bold, "one buyer's wait"),
		request.Trace, ms(wait.took()), ms(request.took()), behind.Instance)
	con.printf("  . request   ~ waits   # holds the key   + Redis; from %d spans\n\n", len(all))
	con.narrow()
	printRows(con, t.rows(request, wait, behind), request)
}

// printRows draws the rows over the time of the request. A name is set in as far
// as its row is below the request.
func printRows(con *console, rows []row, request traced) {
	width := min(mostWaterfall, max(leastWaterfall, con.width-90))
	for _, r := range rows {
		con.printf("  %-7s|%s| %8.2f ms  \t%s%s  %s\n", r.instance,
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
		for _, r := range together(t.children(parent), depth) {
			s := r.spans[0]
			if first := t.children(s); s.ID == wait.ID && len(first) > 0 {
				r.note += fmt.Sprintf(", after %.1f ms in line here", ms(first[0].From.Sub(s.From)))
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
func together(siblings []traced, depth int) (rows []row) {
	shared := map[string]int{}
	for _, s := range siblings {
		if i, ok := shared[s.Name]; ok {
			rows[i].spans = append(rows[i].spans, s)
			rows[i].note = fmt.Sprintf("%d requests", len(rows[i].spans))
			continue
		}
		r := row{instance: s.Instance, depth: depth, name: s.Name, mark: '+', spans: []traced{s}}
		switch {
		case s.redis():
			shared[s.Name] = len(rows)
		case s.Name == acquireSpan:
			r.mark, r.note = '~', fmt.Sprintf("%s, %s tries", s.Attrs["guard.outcome"], s.Attrs["guard.attempts"])
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
	hold, _ := t.hold(behind)
	rows := []row{
		{
			instance: behind.Instance, depth: depth, name: "link: " + holdSpan, mark: '#', spans: []traced{hold},
			note: "trace " + behind.Trace,
		},
	}
	more := t.where(func(s traced) bool {
		return s.Name == holdSpan && s.Instance == behind.Instance && !s.From.Before(hold.To) && s.From.Before(wait.To)
	})
	if len(more) > 0 {
		rows = append(rows, row{
			instance: behind.Instance, depth: depth, name: "and its other turns", mark: '#', spans: more,
			note: fmt.Sprintf("%d of them", len(more)),
		})
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
func (r row) lane(from, to time.Time, width int) []byte {
	lane := bytes.Repeat([]byte{' '}, width)
	column := func(at time.Time) int {
		c := int(int64(width) * int64(at.Sub(from)) / max(int64(to.Sub(from)), 1))
		return min(max(c, 0), width-1)
	}
	for _, s := range r.spans {
		if s.To.Before(from) || s.From.After(to) {
			continue
		}
		for c := column(s.From); c <= column(s.To); c++ {
			lane[c] = r.mark
		}
	}
	return lane
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

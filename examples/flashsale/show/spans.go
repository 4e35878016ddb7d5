package show

import (
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
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
			Name:   s.Name, From: s.StartTime, To: s.EndTime, Attrs: texts(s.Attributes),
		}
		for _, l := range s.Links {
			spans[i].Links = append(spans[i].Links, l.SpanContext.SpanID().String())
		}
	}
	return spans
}

func texts(attrs []attribute.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range attrs {
		m[string(a.Key)] = a.Value.String()
	}
	return m
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

// hold returns the hold that an acquire span led to.
func (t *book) hold(acquire traced) (traced, bool) {
	for _, s := range t.spans {
		if s.Name == holdSpan && s.Trace == acquire.Trace && s.Parent == acquire.Parent {
			return s, true
		}
	}
	return traced{}, false
}

// turns returns the other turns that an instance had between two moments.
func (t *book) turns(instance string, from, to time.Time) (turns []traced) {
	for _, s := range t.spans {
		if s.Name == holdSpan && s.Instance == instance && !s.From.Before(from) && s.From.Before(to) {
			turns = append(turns, s)
		}
	}
	return turns
}

// children returns the spans right below parent.
func (t *book) children(parent traced) (below []traced) {
	for _, s := range t.spans {
		if s.Trace == parent.Trace && s.Parent == parent.ID {
			below = append(below, s)
		}
	}
	return below
}

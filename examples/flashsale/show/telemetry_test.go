package show

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/go-lockguard/guard/examples/flashsale/otlp"
	"github.com/go-lockguard/guard/internal/redistest"
)

func TestTraceFollowsAWaiterAcrossTwoProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stdout, stderr bytes.Buffer
	code := run([]string{"-trace", "-requests", "400", "-stock", "200", "-redis", server.Addr}, &stdout, &stderr)
	text := stdout.String()
	t.Logf("%s%s", text, stderr.String())
	if code != exitOK {
		t.Errorf("exit status %d", code)
	}
	at := -1
	instances := map[string]bool{}
	for _, want := range []string{
		"one buyer's wait", "POST /skus/:sku/deduct", "  acquire stock", "redis eval", // or evalsha
		"link: hold stock", "    hold stock", "redis eval",
	} {
		i := strings.Index(text[at+1:], want)
		if i < 0 {
			t.Fatalf("no %q after the first %d bytes", want, at)
		}
		at += 1 + i
		if line := text[strings.LastIndex(text[:at], "\n")+1:]; strings.HasPrefix(line, "  app-") {
			instances[line[2:7]] = true
		}
	}
	if len(instances) != 2 {
		t.Errorf("spans of %v, want two instances", instances)
	}
	if strings.Contains(text, "flashsale:") {
		t.Error("a key is in the trace")
	}
}

// testTrace has one buyer who waits for another instance.
func testTrace(t *testing.T) (b *book, wait, behind traced) {
	t.Helper()
	began := time.Unix(1_700_000_000, 0)
	add := func(spans []traced, instance, trace, id, parent, name string, from, to int, links ...string) []traced {
		at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
		return append(spans, traced{
			Instance: instance, Trace: trace, ID: id, Parent: parent, Name: name, From: at(from),
			To: at(to), Links: links,
			Attrs: map[string]string{"guard.outcome": "acquired", "guard.attempts": "2"},
		})
	}
	var spans []traced
	spans = add(spans, "app-1", "one", "a", "", "POST", -9, 40)
	spans = add(spans, "app-1", "one", "b", "a", acquireSpan, -9, -8)
	spans = add(spans, "app-1", "one", "c", "a", holdSpan, -8, 24)
	spans = add(spans, "app-1", "three", "x", "w", holdSpan, 24, 36)
	spans = add(spans, "app-2", "two", "d", "", "POST", 0, 96)
	spans = add(spans, "app-2", "two", "e", "d", acquireSpan, 0, 48, "b")
	spans = add(spans, "app-2", "two", "f", "e", "redis set", 1, 3)
	spans = add(spans, "app-2", "two", "g", "e", "redis set", 46, 48)
	spans = add(spans, "app-2", "two", "h", "d", holdSpan, 48, 94)
	spans = add(spans, "app-2", "two", "l", "h", "redis get", 50, 51)
	spans = add(spans, "app-2", "two", "m", "h", "redis set", 92, 93)
	spans = add(spans, "app-2", "five", "n", "o", acquireSpan, 0, 98, "b")
	spans = add(spans, "app-2", "five", "p", "o", holdSpan, 98, 99)        // came too late to buy
	spans = add(spans, "app-2", "four", "i", "j", acquireSpan, 0, 99, "k") // behind a span that is not known

	if _, _, found := newBook(spans[:4], &console{}).waiter(); found {
		t.Error("found a waiter where nobody waited")
	}
	b = newBook(spans, &console{})
	wait, behind, found := b.waiter()
	if !found || wait.ID != "e" || behind.ID != "b" {
		t.Fatalf("found %v: %s behind %s", found, wait.ID, behind.ID)
	}
	return b, wait, behind
}

func TestWaterfall(t *testing.T) {
	b, wait, behind := testTrace(t)
	var got []string
	request := b.byID[wait.Parent]
	for _, r := range b.rows(request, wait, behind) {
		lane := r.lane(request.From, request.To, mostWaterfall)
		got = append(got, strings.TrimRight(r.instance+strings.Repeat(" ",
			1+r.depth)+r.name+" |"+string(lane)+"| "+r.took().String()+" "+r.note, " "))
	}
	want := []string{
		"app-2 POST |................................................| 96ms",
		"app-2  acquire stock |~~~~~~~~~~~~~~~~~~~~~~~~                        | 48ms acquired, 2 tries, after 1.0 " +
			"ms in line here",
		"app-2   redis set |+                     +                         | 4ms 2 requests",
		"app-1   link: hold stock |############                                    | 32ms trace one",
		"app-1   and its other turns |            ######                              | 12ms 1 of them",
		"app-2  hold stock |                        ####################### | 46ms acquired",
		"app-2   redis get |                        +                       | 1ms",
		"app-2   redis set |                                             +  | 1ms",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// collector is as much of an OpenTelemetry collector as the exporters need.
type collector struct {
	mu        sync.Mutex // guards what follows
	instances map[string]bool
	spans     map[string]bool
	metrics   map[string]int // by name: how many bounds its buckets have
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch r.URL.Path {
	case "/v1/traces":
		var req collectortrace.ExportTraceServiceRequest
		if proto.Unmarshal(body, &req) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		for _, rs := range req.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				c.instances[a.Value.GetStringValue()] = true
			}
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					c.spans[s.Name] = true
				}
			}
		}
	case "/v1/metrics":
		var req collectormetrics.ExportMetricsServiceRequest
		if proto.Unmarshal(body, &req) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		for _, rm := range req.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					c.metrics[m.Name] = len(m.GetHistogram().GetDataPoints())
					if p := m.GetHistogram().GetDataPoints(); len(p) > 0 {
						c.metrics[m.Name] = len(p[0].ExplicitBounds)
					}
				}
			}
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestACollectorGetsSpansAndMetricsOfEveryInstance(t *testing.T) {
	t.Parallel()
	c := &collector{instances: map[string]bool{}, spans: map[string]bool{}, metrics: map[string]int{}}
	server := httptest.NewServer(c)
	defer server.Close()
	if code, _ := sell(t, "-otlp", server.URL, "-requests", "100", "-stock", "50", "-instances", "2"); code != exitOK {
		t.Errorf("exit status %d", code)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, want := range []string{"flashsale", "app-1", "app-2"} {
		if !c.instances[want] {
			t.Errorf("nothing from %s: %v", want, c.instances)
		}
	}
	for _, want := range []string{acquireSpan, holdSpan, "redis evalsha", "POST /skus/:sku/deduct"} {
		if !c.spans[want] {
			t.Errorf("no span %q: %v", want, c.spans)
		}
	}
	if c.metrics["guard.wait.duration"] != 15 || c.metrics["guard.hold.duration"] != 19 {
		t.Errorf("metrics, with bounds: %v", c.metrics)
	}
}

func TestACollectorThatIsNotThereDelaysNobody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	if code, res := sell(t, "-otlp", server.URL, "-requests", "100", "-stock", "50", "-instances",
		"2"); code != exitOK || res.Sold != 50 {
		t.Errorf("exit status %d, %d sold", code, res.Sold)
	}
}

// It is not parallel: while it runs, no other test reads Exporters.
func TestABuildWithoutExportersSaysHowToHaveThem(t *testing.T) {
	Exporters = nil
	defer func() { Exporters = otlp.Exporters }()
	_, err := parseFlags([]string{"-otlp", "http://localhost:4318"})
	const command = "go run -tags otlp ./examples/flashsale -otlp http://localhost:4318"
	if err == nil || !strings.Contains(err.Error(), command) {
		t.Errorf("%v, want the command that has them", err)
	}
}

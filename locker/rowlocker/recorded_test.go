package rowlocker

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// recorded has the rows and tickets that processes of this version have stored.
// A release that stores others adds a file, and keeps this one: its processes
// and those of the version before work on the same keys while a service is
// deployed.
const recorded = "testdata/rows-1.txt"

// described is a claim of which a row says all that it can.
func described() *request {
	l := New(noRows{})
	l.instance = "i1"
	return l.acquiring(&locker.Claim{
		Key: "k", Owner: "a", TTL: 10 * time.Second, Fencing: true, Recall: true, Lingers: true,
		Holder: locker.Holder{
			Host: "host", PID: 7, Name: "stock", Traceparent: "00-ab-cd-01", Since: time.UnixMilli(1767225600123).UTC(),
		},
	}, locker.Try{})
}

// Each step reads what is recorded for the steps before, as if a process of
// another release had stored it, and must write what is recorded for itself.
func TestAProcessAsRecordedAndTodaysTakeTurns(t *testing.T) {
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, traits := range []Traits{{Clock: true, Grain: time.Millisecond}, {Tickets: true, Members: true}} {
		d, src := newDesk(noRows{}, traits, "i1"), Row{Key: "k"}
		long := keeps("a")
		long.value = []byte(strings.Repeat("v", inlineMax+1))
		for n, q := range []*request{
			described(), recalls("w", true),
			{verb: renew, owner: "a", ttl: ttl},
			sharing("b", 3, true), begins("a"),
			long, sharing("c", 3, false),
			{verb: revoke, owner: "c"},
			releases("b"),
			{verb: forget, owner: "a"},
			sharing("d", locker.NoLimit, false), sharing("e", locker.NoLimit, false), asks("f", true),
			releases("d"), releases("e"), asks("g", true), releases("f"),
		} {
			q.inst, src.Now = "i1", int64(100e6+n*1e5)
			k := &task{key: "k", qs: []*request{q}, src: src, sure: true}
			k.r = decode(&src, &traits, d.memory, src.Now)
			k.results = []result{k.r.apply(q)}
			c := d.plan(k)
			got := stored(c)
			if want := lines[:min(len(got), len(lines))]; !slices.Equal(got, want) {
				t.Fatalf("step %d writes\n%s\nrecorded is\n%s", n+1, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			as := []byte(lines[0][strings.LastIndexByte(lines[0], ' ')+1:])
			lines = lines[len(got):]
			if j := c.Join; j != nil {
				src.Tickets = append(src.Tickets, Ticket{Name: j.Name, Version: int64(n + 1), Value: as})
				continue
			}
			dropped := func(t Ticket) bool {
				return slices.ContainsFunc(c.Rows[0].Drop, func(d Ticket) bool { return d.Name == t.Name })
			}
			left := slices.DeleteFunc(src.Tickets, dropped)
			if src = (Row{Key: "k", Tickets: left}); c.Rows[0].Value != nil {
				src.Version, src.Written, src.Value = int64(n+1), int64(100e6+n*1e5), as
			}
		}
	}
	if len(lines) != 1 || lines[0] != "" {
		t.Errorf("nobody writes %q", lines)
	}
}

// stored returns a line for each value that a change stores.
func stored(c *Change) (lines []string) {
	if c.Join != nil {
		return []string{strings.TrimSpace("ticket " + c.Join.Name + " " + string(c.Join.Value))}
	}
	for _, r := range c.Rows {
		lines = append(lines, strings.TrimSpace("row "+r.Key+" "+string(r.Value)))
	}
	return lines
}

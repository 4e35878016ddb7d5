package explore

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	mostLines  = 16 // of a story
	mostErrors = 6  // lines of its error
	mostOthers = 3  // other runs that broke
	pages      = "https://github.com/go-lockguard/guard/blob/main/docs/"
)

// line is one line of a story.
type line struct {
	at    time.Duration
	who   string
	text  string
	fault bool
}

// result is a run that has ended.
type result struct {
	plan      plan
	err       error
	decisions []decision
	lines     []line
	trace     uint64
	stalled   bool // it never ended
}

// left returns the faults of the plan that did not come.
func (r *result) left() plan {
	return slices.DeleteFunc(slices.Clone(r.plan), func(f fault) bool {
		return slices.ContainsFunc(r.decisions, func(d decision) bool { return d.id == f.id && d.did == f.k })
	})
}

// more returns the plans with one fault more, which comes behind the others.
func (r *result) more() (plans []plan) {
	from := 0
	for i, d := range r.decisions {
		if d.did != goOn {
			from = i + 1
		}
	}
	for _, d := range r.decisions[from:] {
		for _, k := range d.could {
			plans = append(plans, append(slices.Clip(r.plan), fault{d.id, k}))
		}
	}
	return plans
}

// story tells the run in at most so many lines, and its error. Faults are never
// left out. 0 lines are as many as there are.
func (r *result) story(most int) string {
	lines := slices.DeleteFunc(slices.Clone(r.lines), func(l line) bool { return l.text == "returns" })
	left := 0
	if most > 0 && len(lines) > most+1 { // a line is no longer than what says that it is left out
		left = len(lines) - most
	}
	var b strings.Builder
	before, skip := "", left
	for i, l := range lines {
		if skip > 0 && i >= most/3 && !l.fault {
			if skip--; skip == 0 {
				fmt.Fprintf(&b, "%10s  %-8s   (%d lines more)\n", "", "", left)
			}
			continue
		}
		at := fmt.Sprintf("%.3fs", l.at.Seconds())
		if at == before {
			at = ""
		} else {
			before = at
		}
		sign := "  "
		if l.fault {
			sign = "! "
		}
		fmt.Fprintf(&b, "%10s  %-8s %s%s\n", at, l.who, sign, l.text)
	}
	if r.err != nil {
		for i, text := range strings.Split(r.err.Error(), "\n") {
			if i == mostErrors {
				break
			}
			who := "BROKEN"
			if i > 0 {
				who = ""
			}
			fmt.Fprintf(&b, "%10s  %-8s   %s\n", "", who, text)
		}
	}
	return b.String()
}

// report tells of the runs that broke the check, the first in full.
func (x *search) report() string {
	first := x.broken[0]
	by := fmt.Sprintf("by %d faults at once", len(first.plan))
	switch n := len(first.plan); {
	case n == 0:
		by = "without any fault"
	case first.plan.orderOnly():
		by = "without any fault, by the order alone"
	case n == 1:
		by = "by one fault"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "explore: broken %s; %d of %d runs are\n%s", by, len(x.broken), x.st.Runs, first.story(mostLines))
	if len(first.plan) > 0 {
		fmt.Fprintf(&b, "replay: EXPLORE=%s go test -run %s\n",
			quoted(first.plan.String()), quoted(pattern(x.t.Name())))
	}
	if !first.stalled && x.run(first.plan).story(0) != first.story(0) {
		b.WriteString("This run does not repeat: is there anything that was made outside of the scenario, " +
			"or is random?\n")
	}
	fmt.Fprintf(&b, "see: %s%s\n", pages, first.page())
	for i, r := range x.broken[1:] {
		if i == mostOthers {
			break
		}
		text, _, _ := strings.Cut(r.err.Error(), "\n")
		fmt.Fprintf(&b, "also: %s (%s)\n", r.plan, text)
	}
	return b.String()
}

// quoted is s for a shell. The names of tries after the first have apostrophes.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// pattern is the -run of the test of that name alone.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// page is the document about what has broken the run.
func (r *result) page() string {
	if slices.ContainsFunc(r.lines, func(l line) bool { return strings.HasSuffix(l.text, givesUp) }) {
		return "testing-crashes.md#the-scenario" // what a check may ask for
	}
	if len(r.plan) > 0 && !r.stalled {
		switch r.plan[len(r.plan)-1].k {
		case pause, longPause, late:
			return "choosing.md#the-fencing-token"
		case crash, lostAnswer, lostRequest:
			return "choosing.md#at-least-once-at-most-once-exactly-once"
		case flush:
			return "faults.md"
		case yield, swap:
			return "choosing.md#a-lock"
		}
	}
	return "testing-crashes.md"
}

// waiting returns who of a stack dump waits for what is outside of its bubble.
func waiting(dump string) string {
	const most = 3
	var found []string
	for text := range strings.SplitSeq(dump, "\n\n") {
		head, frames, _ := strings.Cut(text, "\n")
		if !strings.Contains(head, "synctest bubble") || strings.Contains(head, "(durable)") || len(found) == most {
			continue
		}
		_, head, _ = strings.Cut(head, "[")
		state, _, _ := strings.Cut(head, ",")
		if at := ownCode(frames); at != "" {
			found = append(found, fmt.Sprintf("%s: %s", state, at))
		}
	}
	return strings.Join(found, "\n")
}

// goroot is the directory of the standard library, as stacks have it.
var goroot = func() string {
	file, _ := runtime.FuncForPC(reflect.ValueOf(regexp.QuoteMeta).Pointer()).FileLine(0)
	return strings.TrimSuffix(path.Dir(file), "regexp")
}()

// ownCode returns the innermost line of a stack that is neither of Go nor of
// this package.
func ownCode(frames string) string {
	for at := range strings.SplitSeq(frames, "\n") {
		at, _, _ = strings.Cut(strings.TrimSpace(at), " +")
		file, _, isPlace := strings.Cut(at, ".go:")
		here := strings.Contains(file, "/guardtest/explore/") && !strings.HasSuffix(file, "_test")
		if isPlace && !here && !strings.HasPrefix(file, goroot) {
			return at
		}
	}
	return ""
}

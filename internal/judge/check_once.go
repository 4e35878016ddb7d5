package judge

import (
	"fmt"
	"slices"
	"strings"
)

// Kinds of records of such calls.
const (
	KindBegan  = "began"  // its function begins
	KindUndone = "undone" // its function has done nothing
	KindResult = "result" // the call has ended
)

// asked is what is known of one key of role once or payment.
type asked struct {
	Span
	calls, began, undone, made int
	results                    []string
	runs                       []string // for a text
}

// results is C12. No key has two results, or two calls whose functions both ran
// to a result that was kept. The function of a payment begins once.
func (v *Verdict) results(h *History) {
	keys := map[string]*asked{}
	for _, l := range h.lives {
		for _, r := range l.asked {
			a := keys[r.Name]
			if a == nil {
				a = &asked{Span: Span{r.Asked, r.At}}
				keys[r.Name] = a
			}
			a.note(l, r)
		}
	}
	for name, a := range keys {
		role := Once
		if strings.HasPrefix(name, Payment) {
			role = Payment
		}
		v.turns[role] += a.calls
		v.runs[role] += a.began
		v.names[role]++
		if slices.ContainsFunc(h.forgetful, func(f forgetful) bool { return f.touches(a.From, a.To) }) {
			continue
		}
		switch twice := role == Payment && a.began-a.undone > 1; {
		case a.made > 1, len(a.results) > 1, twice:
			v.violate(oneResult, "%s: %d functions began, %d did nothing, %d made a result; the results are %q: %q%v",
				name, a.began, a.undone, a.made, a.results, a.runs, h.around(a.From, a.To))
		}
	}
}

// note adds a record of a life.
func (a *asked) note(l *lifetime, r Record) {
	a.From, a.To = min(a.From, r.Asked), max(a.To, r.At)
	switch r.Kind {
	case KindBegan:
		a.began++
	case KindUndone:
		a.undone++
	case KindResult:
		a.calls++
		if r.Err != "" {
			break
		}
		if r.Fresh {
			a.made++
		}
		if !slices.Contains(a.results, r.Result) {
			a.results = append(a.results, r.Result)
		}
	}
	if r.Kind != KindResult || r.Fresh {
		a.runs = append(a.runs, fmt.Sprintf("%d.%d.%d %s at %.6f %s", l.proc, l.number, r.N, r.Kind,
			float64(r.At)/1e9, r.Err))
	}
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// The roles of calls whose result is kept. They have keys of their own, new
// ones every onceRound.
const (
	once    = "once"    // may run again after a crash or an error
	payment = "payment" // guard.WithAtMostOnce
)

const (
	onceRound = 2 * time.Second
	onceTTL   = 30 * time.Second // of a result; nobody asks for it as late as that
)

// Kinds of records of such calls.
const (
	kindBegan  = "began"  // its function begins
	kindUndone = "undone" // its function has done nothing
	kindResult = "result" // the call has ended
)

var errPlanned = errors.New("planned")

// ask makes one call of role once or payment. Every fifth is a plain call on the
// same key, and every twentieth function fails. Every second result is too long
// for a message.
func (w *worker) ask(ctx context.Context, p plan, rnd *rand.Rand, rest time.Duration) error {
	l, ok := w.locker.(libs.Recording)
	if !ok {
		return errAlone
	}
	n, at := w.visits.Add(1), now()
	name := fmt.Sprintf("%s%d-%d", p.role, at/int64(onceRound), p.key)
	plain, fails := rnd.IntN(5) == 0, rnd.IntN(20) == 0
	if plain {
		if lease, err := w.locker.Acquire(ctx, name, p.wait); err == nil {
			time.Sleep(min(p.work, w.TTL/2))
			_ = lease.Release(context.Background())
		}
		return nil
	}
	result := fmt.Sprintf("%-40s", fmt.Sprintf("%d.%d.%d", w.Proc, w.Life, n))
	if p.key%2 == 1 {
		result += strings.Repeat("x", 20_000)
	}
	var broken error
	note := func(kind string) {
		broken = cmp.Or(broken, w.diary.write(record{Kind: kind, N: n, Name: name, Asked: at, At: now()}))
	}
	got, fresh, err := l.Once(ctx, name, p.wait, onceTTL, p.role == payment, func(context.Context) ([]byte, error) {
		note(kindBegan)
		time.Sleep(p.work)
		switch {
		case fails && n%2 == 0:
			note(kindUndone)
			return nil, guard.NothingDone(errPlanned)
		case fails:
			return nil, errPlanned
		}
		return []byte(result), nil
	})
	r := record{Kind: kindResult, N: n, Name: name, Asked: at, At: now(), Fresh: fresh}
	if err != nil {
		r.Err = err.Error()
		time.Sleep(rest)
	} else {
		r.Result, _, _ = strings.Cut(string(got), " ")
	}
	return cmp.Or(broken, w.diary.write(r))
}

// asked is what is known of one key of role once or payment.
type asked struct {
	span
	calls, began, undone, made int
	results                    []string
	runs                       []string // for a text
}

// results is C12. No key has two results, or two calls whose functions both ran
// to a result that was kept. The function of a payment begins once.
func (v *verdict) results(h *history) {
	keys := map[string]*asked{}
	for _, l := range h.lives {
		for _, r := range l.asked {
			a := keys[r.Name]
			if a == nil {
				a = &asked{span: span{r.Asked, r.At}}
				keys[r.Name] = a
			}
			a.note(l, r)
		}
	}
	for name, a := range keys {
		role := once
		if strings.HasPrefix(name, payment) {
			role = payment
		}
		v.turns[role] += a.calls
		v.runs[role] += a.began
		v.names[role]++
		if slices.ContainsFunc(h.forgetful, func(f forgetful) bool { return f.touches(a.From, a.To) }) {
			continue
		}
		switch twice := role == payment && a.began-a.undone > 1; {
		case a.made > 1, len(a.results) > 1, twice:
			v.violate(oneResult, "%s: %d functions began, %d did nothing, %d made a result; the results are %q: %q%v",
				name, a.began, a.undone, a.made, a.results, a.runs, h.around(a.From, a.To))
		}
	}
}

// note adds a record of a life.
func (a *asked) note(l *lifetime, r record) {
	a.From, a.To = min(a.From, r.Asked), max(a.To, r.At)
	switch r.Kind {
	case kindBegan:
		a.began++
	case kindUndone:
		a.undone++
	case kindResult:
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
	if r.Kind != kindResult || r.Fresh {
		a.runs = append(a.runs, fmt.Sprintf("%d.%d.%d %s at %.6f %s", l.proc, l.number, r.N, r.Kind,
			float64(r.At)/1e9, r.Err))
	}
}

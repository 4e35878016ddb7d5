package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// kind is what happens at a gate.
type kind string

const (
	goOn        kind = ""
	yield       kind = "yield"        // the others go first
	swap        kind = "switch"       // the other goroutines of the process go first
	crash       kind = "crash"        // the process dies behind the effect
	lostRequest kind = "lost-request" // no effect, no answer
	lostAnswer  kind = "lost-answer"  // an effect, and no answer
	pause       kind = "pause"        // the process stands still before the effect, for longer than a TTL
	longPause   kind = "long-pause"   // the same, and for longer than its client waits
	late        kind = "late"         // the effect comes later than that
	flush       kind = "flush"        // the store loses all
	over        kind = "over"         // the run has ended
	whose       kind = "whose"        // the gate stays shut: which goroutine is it?
)

var (
	stepKinds = []kind{yield, swap, crash, lostAnswer, lostRequest, pause, longPause, late}
	askKinds  = []kind{yield, swap, crash, lostAnswer, lostRequest, pause, longPause, flush}
	minor     []kind

	// simplest is the order in which plans are tried.
	simplest = []kind{yield, swap, crash, pause, longPause, lostAnswer, lostRequest, late, flush}
)

// say tells of k before a step.
func (k kind) say(step string) string {
	switch k {
	case lostRequest:
		return "THE REQUEST IS LOST: " + step
	case pause, longPause:
		return "STANDS STILL, for longer than its lease, before: " + step
	case late:
		return "THE REQUEST COMES LATE, by more than a lease: " + step
	case flush:
		return "THE STORE FORGETS ALL, before: " + step
	}
	return string(k) + " at: " + step
}

// plan is the faults of a run, in their order.
type plan []fault

// fault is what happens at the gate of that id.
type fault struct {
	id string
	k  kind
}

// at returns what happens at a gate. One that has yielded may meet something
// else afterwards.
func (p plan) at(id string, yielded []kind) kind {
	for _, f := range p {
		if f.id == id && !slices.Contains(yielded, f.k) {
			return f.k
		}
	}
	return goOn
}

func (p plan) String() string {
	var parts []string
	for _, f := range p {
		parts = append(parts, f.id+"="+string(f.k))
	}
	return strings.Join(parts, "; ")
}

// rank is lower for a simpler plan.
func (p plan) rank() (n int) {
	for _, f := range p {
		n += 1 << slices.Index(simplest, f.k)
	}
	return n
}

// orderOnly reports whether p only says who goes first.
func (p plan) orderOnly() bool {
	return !slices.ContainsFunc(p, func(f fault) bool { return f.k != yield && f.k != swap })
}

// parse reads a plan. "none" is one without a fault.
func parse(text string) (p plan, err error) {
	if text == "none" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ";") {
		id, k, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found || !slices.Contains(simplest, kind(k)) {
			return nil, fmt.Errorf("%q is not process/step=fault, with a fault of %v", part, simplest)
		}
		p = append(p, fault{id, kind(k)})
	}
	return p, nil
}

// idOf returns the id of the n-th gate of a process at steps of that short name.
func idOf(process, short string, n int) string {
	if n == 1 {
		return process + "/" + short
	}
	return process + "/" + short + "#" + strconv.Itoa(n)
}

// short is the name of a step in a plan: the first words, with what a shell
// leaves as it is.
func short(what string) string {
	const words, most = 3, 32
	parts := strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" :_.-", r) {
			return r
		}
		return ' '
	}, what))
	name := []rune(strings.Join(parts[:min(len(parts), words)], "-"))
	return string(name[:min(len(name), most)])
}

package guardtest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-lockguard/guard"
)

// LockOrder returns an observer that witnesses in which order calls take keys
// inside each other, over all tests of the program. If the order of two kinds
// of keys makes a circle, calls can wait for each other until MaxWait. The test
// that closes the circle fails with the stacks of all nestings in it, even if
// no two calls met. The idea is that of Linux's lockdep.
//
// The kind of a key is its first part, such as stock of guard.Key("stock", 42).
// Keys of one kind must be taken in sorted order, as DoAll takes them. A key
// that is taken again, one that is only tried, and readers inside readers count
// for nothing. Nor does a circle whose nestings all happen under one other key.
// A key is held by what has its ctx, and by the goroutine that took it.
//
// Each [Guard] of this package has such an observer. Give one to a guard on a
// real store with guard.WithObserver. It is safe for concurrent use, and tells
// nothing after the end of t.
func LockOrder(t testing.TB) guard.Observer {
	t.Helper()
	return newWitness(t, witnessed)
}

// AllowOrder says that keys of the kind inner may be taken inside keys of the
// kind outer against the order of other calls, until t ends. reason says why
// these calls never meet. It must not be empty, or t ends.
func AllowOrder(t testing.TB, outer, inner, reason string) {
	t.Helper()
	if reason == "" {
		t.Fatalf("guardtest: AllowOrder(%q, %q) needs a reason", outer, inner)
	}
	witnessed.allow(t, outer, inner)
}

func (o *orders) allow(t testing.TB, outer, inner string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	e := edge{outer, inner}
	o.allowed[e]++
	t.Cleanup(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.allowed[e]--
	})
}

var witnessed = newOrders()

// orders are the nestings of a program.
type orders struct {
	mu      sync.Mutex                     // guards all below, and is never held while a test is told
	nested  map[string]map[string]*nesting // by the kinds of the outer and the inner key
	held    map[int][]*taken               // by goroutine
	allowed map[edge]int
	told    map[edge]bool
}

func newOrders() *orders {
	return &orders{
		nested: map[string]map[string]*nesting{}, held: map[int][]*taken{},
		allowed: map[edge]int{}, told: map[edge]bool{},
	}
}

// edge says that keys of one kind are taken inside those of another one.
type edge struct{ outer, inner string }

// taken is a key that is held, or wanted.
type taken struct {
	key    string
	shared bool
	stack  []uintptr
	outer  *taken // of its ctx
	by     int    // goroutine
	over   bool
}

// nesting is a key that was wanted while another one was held.
type nesting struct {
	outer, inner *taken
	under        []string // other keys that were held
}

// witness is the observer of one test.
type witness struct {
	guard.NopObserver

	t   testing.TB
	all *orders

	mu   sync.Mutex // guards over, and is held while t is told
	over bool       // t has ended
}

func newWitness(t testing.TB, all *orders) *witness {
	t.Helper()
	w := &witness{t: t, all: all}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over = true
	})
	return w
}

// takenKey finds the innermost key of a ctx.
type takenKey struct{}

func (w *witness) WaitStart(ctx context.Context, i guard.WaitInfo) context.Context {
	if !i.Reentry && !i.Try {
		wants := &taken{key: i.Key, shared: i.Mode == "shared", stack: callers()}
		for _, circle := range w.all.want(ctx, wants) {
			w.tell(circle)
		}
	}
	return ctx
}

func (w *witness) HoldStart(ctx context.Context, i guard.WaitInfo) context.Context {
	if i.Reentry {
		return ctx
	}
	outer, _ := ctx.Value(takenKey{}).(*taken)
	h := &taken{key: i.Key, shared: i.Mode == "shared", stack: callers(), outer: outer, by: goroutine()}
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.all.held[h.by] = append(w.all.held[h.by], h)
	return context.WithValue(ctx, takenKey{}, h)
}

func (w *witness) HoldEnd(ctx context.Context, i guard.WaitInfo, _ guard.HoldResult) {
	h, ok := ctx.Value(takenKey{}).(*taken)
	if !ok || i.Reentry {
		return
	}
	o := w.all
	o.mu.Lock()
	defer o.mu.Unlock()
	h.over = true
	left := slices.DeleteFunc(o.held[h.by], func(other *taken) bool { return other == h })
	if o.held[h.by] = left; len(left) == 0 {
		delete(o.held, h.by)
	}
}

// tell fails the test.
func (w *witness) tell(circle []*nesting) {
	var b strings.Builder
	for _, n := range circle {
		fmt.Fprintf(&b, "\n%q inside %q:\n%s  which holds it since\n%s", n.inner.key, n.outer.key,
			text(n.inner.stack), text(n.outer.stack))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Errorf("guardtest: these calls take keys in a circle, so they can wait for each other: take the keys by "+
			"DoAll, or in one order, or say with AllowOrder why they never meet\n%s", &b)
	}
}

// want notes what the call that wants a key holds already. It returns the
// circles that are new.
func (o *orders) want(ctx context.Context, wants *taken) (circles [][]*nesting) {
	o.mu.Lock()
	defer o.mu.Unlock()
	holds := o.holds(ctx)
	for _, h := range holds {
		if h.key == wants.key || h.shared && wants.shared {
			continue
		}
		n := &nesting{outer: h, inner: wants}
		for _, other := range holds {
			if other != h {
				n.under = append(n.under, other.key)
			}
		}
		if circle := o.add(n); circle != nil {
			circles = append(circles, circle)
		}
	}
	return circles
}

// holds returns the keys that a call holds, by its ctx or by its goroutine. It
// needs mu.
func (o *orders) holds(ctx context.Context) (holds []*taken) {
	for h, _ := ctx.Value(takenKey{}).(*taken); h != nil; h = h.outer {
		if !h.over {
			holds = append(holds, h)
		}
	}
	if len(o.held) == 0 {
		return holds
	}
	for _, h := range o.held[goroutine()] {
		if !slices.Contains(holds, h) {
			holds = append(holds, h)
		}
	}
	return holds
}

// add notes n and returns the circle that it closes, or nil if there is none,
// or it was told before. It needs mu.
func (o *orders) add(n *nesting) []*nesting {
	e := kinds(n.outer.key, n.inner.key)
	if o.allowed[e] > 0 {
		return nil
	}
	if o.nested[e.outer] == nil {
		o.nested[e.outer] = map[string]*nesting{}
	}
	if known := o.nested[e.outer][e.inner]; known == nil || len(n.under) < len(known.under) {
		o.nested[e.outer][e.inner] = n
	}
	way := o.way(e.inner, e.outer, map[string]bool{})
	pair := edge{min(e.outer, e.inner), max(e.outer, e.inner)}
	if way == nil || o.told[pair] {
		return nil
	}
	circle := append([]*nesting{n}, way...)
	for _, key := range n.under {
		if !slices.ContainsFunc(circle, func(n *nesting) bool { return !slices.Contains(n.under, key) }) {
			return nil // whoever holds key keeps the others away
		}
	}
	o.told[pair] = true
	return circle
}

// way returns the nestings that lead from one kind to another one, or nil.
func (o *orders) way(from, to string, been map[string]bool) []*nesting {
	if n := o.nested[from][to]; n != nil {
		return []*nesting{n}
	}
	been[from] = true
	for next, n := range o.nested[from] {
		if !been[next] {
			if way := o.way(next, to, been); way != nil {
				return append([]*nesting{n}, way...)
			}
		}
	}
	return nil
}

// kinds returns the kinds of two keys. Among keys of one kind the lower and the
// higher key are kinds of their own.
func kinds(outer, inner string) edge {
	from, _, _ := strings.Cut(outer, ":")
	to, _, _ := strings.Cut(inner, ":")
	if from != to {
		return edge{from, to}
	}
	if outer < inner {
		return edge{from + ", lower", to + ", higher"}
	}
	return edge{from + ", higher", to + ", lower"}
}

func callers() []uintptr {
	const most = 32
	pcs := make([]uintptr, most)
	return pcs[:runtime.Callers(3, pcs)]
}

// text is a stack without the frames of the guard, the runtime and package
// testing.
func text(pcs []uintptr) string {
	var b strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if !slices.ContainsFunc([]string{"github.com/go-lockguard/guard.", "testing.", "runtime."},
			func(of string) bool { return strings.HasPrefix(f.Function, of) }) {
			fmt.Fprintf(&b, "    %s\n        %s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}

// goroutine is the number of the calling goroutine.
func goroutine() int {
	var buf [64]byte
	head := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(head, []byte(" "))
	id, _ := strconv.Atoi(string(number))
	return id
}

package guardtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/goroutine"
)

// LockOrder returns an observer that witnesses in which order calls take keys
// inside each other, over all tests of the program. If the order of two kinds
// of keys makes a circle, calls can wait for each other until MaxWait. The test
// that closes the circle fails with the stacks of all nestings in it, even if
// no two calls met. The idea is that of Linux's lockdep.
//
// The kind of a key is its first part, such as stock of guard.Key("stock", 42).
// Keys of one kind must be taken in sorted order, as DoAll takes them. A key
// that is taken again and one that is only tried count for nothing. Nor does a
// circle of readers inside readers, or one whose nestings all happen under one
// other key that is held alone. A key is held by what has its ctx, and by the
// goroutine that took it.
//
// Each [Guard] of this package has such an observer. Give one to a guard on a
// real store with guard.WithObserver. It is safe for concurrent use, and tells
// nothing after the end of t.
func LockOrder(t testing.TB) guard.Observer {
	t.Helper()
	return newWitness(t, witnessed)
}

// AllowOrder says that keys of the kind inner may be taken inside keys of the
// kind outer against the order of other calls, until t ends. If both are one
// kind, its keys may be taken in any order. reason says why these calls never
// meet. It must not be empty, or t ends.
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
	nested  map[string]map[string]*nesting // by the ends of their edges
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
	key   string
	mode  string // as in guard.WaitInfo
	stack []uintptr
	of    *witness // who noted that it is held
	by    int      // goroutine; 0 for what a test stages
	over  bool
}

// nesting is a key that was wanted while another one was held. It stands for
// all nestings of its edge.
type nesting struct {
	outer, inner *taken
	readers      bool     // each time
	under        []string // other keys that were held alone, each time
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

// takenKey finds the keys of a ctx, a []*taken. The innermost is the first.
type takenKey struct{}

// stagedKey is in the ctx of a test that stages a hold. The hold is none of the
// test's own.
type stagedKey struct{}

func (w *witness) WaitStart(ctx context.Context, i guard.WaitInfo) context.Context {
	if !i.Reentry && !i.Try && ctx.Value(stagedKey{}) != true && !w.ended() {
		wants := &taken{key: i.Key, mode: i.Mode, stack: callers(), by: goroutine.Number()}
		for _, circle := range w.all.want(ctx, wants) {
			w.tell(circle)
		}
	}
	return ctx
}

// ended reports whether the test has ended, so that nobody can be told.
func (w *witness) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func (w *witness) HoldStart(ctx context.Context, i guard.WaitInfo) context.Context {
	if i.Reentry {
		return ctx
	}
	h := &taken{key: i.Key, mode: i.Mode, stack: callers(), of: w, by: goroutine.Number()}
	if ctx.Value(stagedKey{}) == true {
		h.by, ctx = 0, context.WithValue(ctx, stagedKey{}, false)
	}
	o := w.all
	o.mu.Lock()
	defer o.mu.Unlock()
	holds := append([]*taken{h}, o.holds(ctx, h.by)...)
	if h.by != 0 {
		o.held[h.by] = append(o.held[h.by], h)
	}
	return context.WithValue(ctx, takenKey{}, holds)
}

func (w *witness) HoldEnd(ctx context.Context, i guard.WaitInfo, _ guard.HoldResult) {
	holds, _ := ctx.Value(takenKey{}).([]*taken)
	at := slices.IndexFunc(holds, func(h *taken) bool { return h.of == w })
	if at < 0 || i.Reentry {
		return
	}
	h, o := holds[at], w.all
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
	holds := o.holds(ctx, wants.by)
	for _, h := range holds {
		if h.key == wants.key {
			continue
		}
		n := &nesting{outer: h, inner: wants, readers: h.mode == "shared" && wants.mode == "shared"}
		for _, other := range holds {
			if other.key != h.key && other.mode == "" {
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
func (o *orders) holds(ctx context.Context, by int) (holds []*taken) {
	all, _ := ctx.Value(takenKey{}).([]*taken)
	for _, h := range all {
		if !h.over {
			holds = append(holds, h)
		}
	}
	for _, h := range o.held[by] {
		if !slices.Contains(holds, h) {
			holds = append(holds, h)
		}
	}
	return holds
}

// add notes n and returns the circle that it closes, or nil if there is none,
// or it was told before. It needs mu.
func (o *orders) add(n *nesting) []*nesting {
	from, to := kind(n.outer.key), kind(n.inner.key)
	if o.allowed[edge{from, to}] > 0 {
		return nil
	}
	if from == to { // the lower and the higher key are kinds of their own
		from, to = from+", lower", to+", higher"
		if n.outer.key > n.inner.key {
			from, to = kind(n.outer.key)+", higher", kind(n.inner.key)+", lower"
		}
	}
	if known := o.nested[from][to]; known != nil {
		n.readers, n.under = n.readers && known.readers, common(n.under, known.under)
		if n.readers == known.readers && len(n.under) == len(known.under) {
			return nil // nothing is new
		}
	}
	if o.nested[from] == nil {
		o.nested[from] = map[string]*nesting{}
	}
	o.nested[from][to] = n
	way := o.way(to, from, reached{n.readers, n.under}, map[string]bool{})
	pair := edge{min(from, to), max(from, to)}
	if way == nil || o.told[pair] {
		return nil
	}
	o.told[pair] = true
	return append([]*nesting{n}, way...)
}

// reached is what all nestings of a way have in common.
type reached struct {
	readers bool
	under   []string
}

// way returns the nestings that lead from one kind to another one, or nil. With
// those before, which r is about, they are not all of readers, nor under one
// key: whoever holds that keeps the others away.
func (o *orders) way(from, to string, r reached, been map[string]bool) []*nesting {
	state := fmt.Sprint(from, r)
	if been[state] {
		return nil
	}
	been[state] = true
	for next, n := range o.nested[from] {
		now := reached{r.readers && n.readers, common(r.under, n.under)}
		if next == to && !now.readers && len(now.under) == 0 {
			return []*nesting{n}
		}
		if way := o.way(next, to, now, been); way != nil {
			return append([]*nesting{n}, way...)
		}
	}
	return nil
}

// common returns what is in both.
func common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(key string) bool { return !slices.Contains(b, key) })
}

// kind returns the first part of a key.
func kind(key string) string {
	first, _, _ := strings.Cut(key, ":")
	return first
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

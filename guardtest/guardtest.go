package guardtest

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/keyescape"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// grace is how long a handler that has answered may take to return. A lease
// that is held longer counts as left behind.
const grace = 5 * time.Second

// Guard is a [guard.Guard] on leases in memory, with methods that stage events.
// Its methods are safe for concurrent use. Call the methods that may end the
// test only in the test's goroutine.
type Guard struct {
	*guard.Guard

	t      testing.TB
	store  *memlocker.Locker
	other  *guard.Guard // another process, as far as Guard can tell
	held   holds
	asked  keySet // keys that the code under test asked for
	staged keySet // keys that Hold held
}

// New returns a Guard for one test, with the given options on top of guard's
// defaults. A bad option ends the test.
//
// When the test ends, the Guard is closed. t fails if a lease is not released
// within 5 s after that: the code forgot to release it, or is still running. t
// also fails if nobody has asked g for a key that [Guard.Hold] held. In that
// case the key is misspelled, or the code does not lock. And t fails if keys
// are taken in orders that can make calls wait for each other, see [LockOrder].
func New(t testing.TB, opts ...guard.Option) *Guard {
	t.Helper()
	g := &Guard{t: t, store: memlocker.New()}
	var err error
	if g.Guard, err = guard.New(g.store, append([]guard.Option{
		guard.WithObserver(&g.held),
		guard.WithObserver(asks{asked: &g.asked}),
		guard.WithObserver(LockOrder(t)),
	}, opts...)...); err != nil {
		t.Fatalf("guardtest: %v", err)
	}
	// It has the same name, as another instance of the service would. Another
	// name would look like another service that has no prefix.
	g.other, err = guard.New(g.store.Peer(), guard.WithName(g.Name()), guard.WithMaxHold(0),
		guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatalf("guardtest: %v", err)
	}
	t.Cleanup(g.end)
	return g
}

func (g *Guard) end() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		g.t.Errorf("guardtest: leases still held at the end of the test: %q", g.held.keys())
	}
	if err := g.other.Close(ctx); err != nil {
		g.t.Errorf("guardtest: closing somebody else's guard: %v", err)
	}
	if idle := g.staged.without(&g.asked); len(idle) > 0 && !g.t.Failed() {
		g.t.Errorf("guardtest: nobody asked for %q, which Hold held, only for %q", idle, g.asked.sorted())
	}
}

// Hold acquires key for another process, as far as g can tell. It keeps key
// until release is called or the test ends. It waits for a call of g that has
// the key, and ends the test if that takes more than 3 s. release is
// idempotent. At its end the test fails if g was never asked for key.
//
// Options make it a lease of another mode, as of a reader elsewhere:
//
//	g.Hold(key, guard.WithShared())
func (g *Guard) Hold(key string, opts ...guard.Option) (release func()) {
	g.t.Helper()
	_, release = hold(g.t, g.other.With(opts...), key)
	g.staged.add(key)
	return release
}

// Lose makes key vanish, as after FLUSHALL or a failover that lost it. Anybody
// can then acquire it. A lease on it is noticed lost at its next renewal, a
// third of the TTL after the last renewal. Then its context ends with cause
// [guard.ErrLeaseLost]. t fails if nobody holds the key.
func (g *Guard) Lose(key string) {
	g.t.Helper()
	if !g.store.Lose(keyescape.Plain(key)) {
		g.t.Errorf("guardtest: Lose(%q): nobody holds it", key)
	}
}

// Break makes the locker answer every call with [guard.ErrUnavailable], until
// mend is called or the test ends. A call that waits tries again until its
// MaxWait is over. A lease can be trusted until its deadline. mend is
// idempotent.
func (g *Guard) Break() (mend func()) {
	mend = g.store.Break()
	g.t.Cleanup(mend)
	return mend
}

// Context returns a context with a live lease of g on key, like the context
// that Do passes to its function. It is for code that calls [guard.LeaseFrom]
// or [guard.FencingToken]. Context waits for the key as Acquire does, and ends
// the test if it does not get it. The lease is released when t ends. Options
// such as [guard.WithPermits] make it a lease of another mode.
func (g *Guard) Context(t testing.TB, key string, opts ...guard.Option) context.Context {
	t.Helper()
	l, _ := hold(t, g.With(opts...), key)
	return l.Context()
}

// hold acquires key on g until release is called or t ends. release
// ignores the error of a lease that was lost.
func hold(t testing.TB, g *guard.Guard, key string) (l *guard.Lease, release func()) {
	t.Helper()
	l, err := g.Acquire(context.WithValue(t.Context(), stagedKey{}, true), key)
	if err != nil {
		t.Fatalf("guardtest: acquire %q: %v", key, err)
	}
	release = func() { _ = l.Release(context.WithoutCancel(t.Context())) }
	t.Cleanup(release)
	return l, release
}

// holds is an observer that records which keys are held.
type holds struct {
	guard.NopObserver

	mu    sync.Mutex // guards count
	count map[string]int
}

func (h *holds) HoldStart(ctx context.Context, w guard.WaitInfo) context.Context {
	h.add(w.Key, 1)
	return ctx
}

func (h *holds) HoldEnd(_ context.Context, w guard.WaitInfo, _ guard.HoldResult) { h.add(w.Key, -1) }

func (h *holds) add(key string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == nil {
		h.count = make(map[string]int)
	}
	if h.count[key] += n; h.count[key] == 0 {
		delete(h.count, key)
	}
}

func (h *holds) keys() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.count))
}

// Package explore tests code that uses a guard at every point where its process
// may die. The package is experimental: its names may change in any version.
//
// A test describes once what happens: processes that call the code under test,
// and a check of what must be true at the end. [Test] runs that again and again
// in virtual time, each time with another fault at another point. Test begins
// without a fault, goes on with every single one, and ends with several at
// once. The first run that breaks the check is the smallest. Test fails with
// the story of that run, and with a line that replays it.
//
//	explore.Test(t, func(w *explore.World) {
//		charges := 0
//		w.Deliver("pay", func(ctx context.Context, g *guard.Guard) error {
//			return g.Do(ctx, "pay:7", func(ctx context.Context) error {
//				return w.Step(ctx, "charge", func() error { charges++; return nil })
//			})
//		})
//		w.Check(func() error {
//			if charges > 1 {
//				return fmt.Errorf("charged %d times", charges)
//			}
//			return nil
//		})
//	})
//
// Between two steps nothing can happen. Goroutines of one process change places
// only there. Each effect outside the process needs a Step around it, which
// belongs into the fake of the database or service. The requests of the guard
// to its store are steps by themselves. [World.Open] makes each statement of a
// database/sql driver one, and package redisstep each command of go-redis.
//
// A scenario must do the same in each run: no real I/O or clocks, no random
// decisions, no order of a map, nothing that is kept from another run. A
// scenario must hold no mutex across a Step, and returns errors instead of
// failing t. A run that stands still, because of a mutex or of real I/O, fails
// the test when no step has come for 10 s.
//
// Of runs that differ only in the order of steps that touch nothing in common,
// Test goes on from one. A request of the guard touches its keys. A Step
// touches all that is outside.
//
// docs/testing-crashes.md takes one payment from Do to a result in the
// database.
package explore

import (
	"database/sql/driver"
	"errors"
	"os"
	"testing"
	"time"
)

// ErrNoAnswer is what [World.Step] returns if its request or the answer got
// lost. What the request does may be done, undone, or done later.
var ErrNoAnswer = errors.New("explore: no answer")

// Option is a setting of [Test] and [Find].
type Option func(*settings)

type settings struct {
	runs   int
	faults int // at once
	flush  bool
	keep   bool // connections

	// For tests of this package.
	stats   *stats
	not     []kind
	twice   bool                 // each run is done twice, and must be the same
	late    func() bool          // the program had to wait for a processor since the last call
	network func(*World) network // nil: the guards keep their leases in memory
}

// Runs sets how many runs there are at most. Default 2,000. If there are more
// faults to try at once, Test takes some of them, the same ones each time.
// Under -race each run keeps some 100 KB until the test program ends.
func Runs(n int) Option { return func(s *settings) { s.runs = n } }

// Level sets how many faults come at once at most. Default 3.
func Level(n int) Option { return func(s *settings) { s.faults = n } }

// StoreMayForget adds a fault: the store loses all keys and results, as by
// FLUSHALL or a failover. [guard.Once] does not survive that, nor does the mark
// of [guard.WithAtMostOnce].
func StoreMayForget() Option { return func(s *settings) { s.flush = true } }

// SameDatabase says that [World.Open] opens the same database in each run. The
// connections then outlast a run, which makes a search on SQLite three times as
// fast. The scenario must empty the tables at its beginning, and must not
// replace the file.
func SameDatabase() Option { return func(s *settings) { s.keep = true } }

// stats are what a search has done.
type stats struct {
	Runs, Broken, Steps int
	Level               int // faults at once in the last run
	Diverged            int // runs in which a planned fault did not come
	Unlike              int // runs that were not the same the second time
	Anew                int // pairs of such runs that were done again, as the machine was late
	Untried             int // plans that the budget left out
	Contrary            int // runs that broke, unlike one with the same trace, or the other way round
	Took                time.Duration
}

// Test runs scenario with many faults, and fails t with the story of the
// smallest run that is broken. A run is broken if the check says so, or if a
// process panics, blocks for good or does not end. A process that returns an
// error, though no fault has come, breaks a run too. Test blocks until the last
// run has ended. Call it in the goroutine of t.
//
// If the environment has EXPLORE, which a story ends with, Test does that run
// only, and tells its story. EXPLORE=none is the run without a fault.
func Test(t *testing.T, scenario func(*World), opts ...Option) {
	t.Helper()
	x := newSearch(t, scenario, opts)
	if text := os.Getenv("EXPLORE"); text != "" {
		p, err := parse(text)
		if err != nil {
			t.Fatalf("explore: EXPLORE: %v", err)
		}
		r := x.run(p)
		t.Logf("explore:\n%s", r.story(0))
		if r.err != nil {
			t.Errorf("explore: %v", r.err)
		}
		if left := r.left(); len(left) > 0 {
			t.Errorf("explore: %s did not come: there is no such step now, or not this fault of it", left)
		}
		return
	}
	if story := x.all(); story != "" {
		t.Error(story)
		return
	}
	t.Logf("explore: %d runs, up to %d faults at once, %d steps, %v; %d plans not tried", x.st.Runs, x.st.Level,
		x.st.Steps, x.st.Took.Round(time.Millisecond), x.st.Untried)
}

// Find is [Test] that returns the story instead of failing t, or "" if no run
// is broken. A test that expects a story proves that its check can fail.
func Find(t *testing.T, scenario func(*World), opts ...Option) (story string) {
	t.Helper()
	return newSearch(t, scenario, opts).all()
}

func never() bool { return false }

func newSearch(t *testing.T, scenario func(*World), opts []Option) *search {
	t.Helper()
	x := &search{
		t: t, scenario: scenario, set: settings{runs: 2000, faults: 3, late: never}, seen: make(map[uint64]bool),
		failed: t.Failed(),
	}
	for _, o := range opts {
		o(&x.set)
	}
	x.pool = &pool{on: x.set.keep, idle: make(map[string][]driver.Conn)}
	t.Cleanup(x.pool.close)
	return x
}

// outcome is a line about what.
func outcome(what string, err error) string {
	if err == nil {
		return what
	}
	return what + ": " + err.Error()
}

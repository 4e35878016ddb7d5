package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

const (
	tries    = 5                // of one Deliver
	patience = 15 * time.Second // of a client, for one try
	givesUp  = "gives up)"
	comeback = 5 * time.Second  // of a client, after a failure
	settling = time.Minute      // for Background, after all others
	lifetime = 10 * time.Minute // of a run, after its last fault
	tick     = time.Microsecond // of a step
)

// network is where the guards of a run keep their leases, in place of the
// memory that they share.
type network interface {
	locker(p *process) locker.Locker
	forget() // loses all keys and results
}

// World is one run of a scenario. Its methods are safe for concurrent use,
// unless they say otherwise.
//
// A [controller] lets one goroutine go on at a time, from one gate to the next.
// A gate is before each step, and before each message that a process hears.
type World struct {
	plan    plan
	start   time.Time
	store   *memlocker.Locker // whose peers the processes have
	pool    *pool
	leases  network       // nil: the leases are in store
	step    time.Duration // that each step takes
	wire    *process      // what is under way
	arrived *time.Timer   // a goroutine has come to a gate, and all of them wait now
	end     chan struct{} // closed after the check
	check   func() error

	mu         sync.Mutex // guards all below, and the fields of the processes
	procs      []*process // sorted by name
	named      map[string]int
	parked     []*gate
	last       *process
	running    int // processes and clients that have not ended, and requests under way
	clients    int
	background bool
	decisions  []decision
	trace      trace
	lines      []line
	errs       []error // of processes, and panics
	faults     int     // that have come to pass
	keys       map[string]bool
	ttl        time.Duration // the longest that was seen
	cleanups   []func()
}

func newWorld(p plan, connections *pool) *World {
	w := &World{
		plan: p, pool: connections, start: time.Now(), store: memlocker.New(), arrived: time.NewTimer(lifetime),
		end: make(chan struct{}), keys: make(map[string]bool), trace: trace{last: make(map[string]uint64)},
		named: make(map[string]int), ttl: 10 * time.Second, step: tick,
	}
	w.wire = w.newProcess("~")
	w.wire.returned = true
	return w
}

// Go calls fn in a process of its own, with a guard of its own, and returns at
// once. If fn returns an error in a run without a fault, the test fails.
//
// fn is called once. A call in it that finds its key held gives up after its
// MaxWait, which is 3 s by default. That is sooner than a holder that stands
// still goes on, so such a scenario never shows what the holder then does
// beside the next one. Use [World.Deliver] for that, which tries again.
func (w *World) Go(name string, fn func(ctx context.Context, g *guard.Guard) error) {
	w.spawn(w.apart(name)).run(fn, true)
}

// apart returns the name of another process in plans, apart from all others.
func (w *World) apart(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	name = cmp.Or(strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == ';' || r == '=' || unicode.IsControl(r) {
			return '-'
		}
		return r
	}, name)), "process")
	if w.named[name]++; w.named[name] > 1 {
		name += "#" + strconv.Itoa(w.named[name])
	}
	return name
}

// Deliver does what a client or a queue does that wants fn done, and returns at
// once. The client calls fn in a process of its own, and in another one 5 s
// after that process died, fn returned an error or 15 s went by without an
// answer. The client gives up after the fifth try. If fn returns an error in a
// run without a fault, the test fails.
func (w *World) Deliver(name string, fn func(ctx context.Context, g *guard.Guard) error) {
	w.mu.Lock()
	w.running++
	w.clients++
	own := time.Duration(w.clients) * 10 * time.Millisecond // no two clients do anything at once
	w.mu.Unlock()
	name = w.apart(name)
	go func() { // ends with the last try, or with the run
		defer w.leave()
		for try := range tries {
			p, then := w.spawn(name+strings.Repeat("'", try)), "tries again)"
			if try == tries-1 {
				then = givesUp
			}
			select {
			case err := <-p.run(fn, true):
				if err == nil {
					return
				}
				if try == tries-1 {
					w.log(p, "(its client "+then)
				}
			case <-p.gone:
				w.log(p, "(its client "+then)
			case <-time.After(patience + own):
				w.log(p, "(its client has no answer, and "+then)
			case <-w.end:
				return
			}
			select {
			case <-time.After(comeback + own):
			case <-w.end:
				return
			}
		}
	}()
}

// Background calls fn in a process of its own, and returns at once. Use
// Background for what runs as long as its service, such as [guard.Guard.Lead]
// or the relay of an outbox. fn is called in another process 5 s after fn
// returned or its process died. A run lasts for 1 min of virtual time after all
// other processes have ended and the last fault is over, so that fn can finish.
// The ctx of fn ends after the check. If fn returns an error in a run without a
// fault, the test fails.
func (w *World) Background(name string, fn func(ctx context.Context, g *guard.Guard) error) {
	w.mu.Lock()
	w.background = true
	w.mu.Unlock()
	name = w.apart(name)
	go func() { // ends with the run
		for try := 0; ; try++ {
			p := w.spawn(name + strings.Repeat("'", try))
			select {
			case <-p.run(fn, false): //nolint:errcheck // run has told the error
			case <-p.gone:
			case <-w.end:
				return
			}
			select {
			case <-time.After(comeback):
			case <-w.end:
				return
			}
		}
	}()
}

// Check sets what must be true when all processes have ended or died. The
// scenario calls it once, before it returns. A second Check panics.
func (w *World) Check(check func() error) {
	if w.check != nil {
		panic("explore: a second Check")
	}
	w.check = check
}

// Calm reports whether no fault has come to pass in this run. A check may ask
// for more then.
func (w *World) Calm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults == 0
}

// Log adds a line to the story of the process of ctx, if there is one.
func (w *World) Log(ctx context.Context, format string, args ...any) {
	if p, err := processOf(ctx); err == nil {
		w.log(p, fmt.Sprintf(format, args...))
	}
}

// Cleanup calls f at the end of the run, after the check. What was added last
// is called first.
func (w *World) Cleanup(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleanups = append(w.cleanups, f)
}

// Step calls effect, which does something outside the process: it writes to a
// database, or asks a service. what names the step in the story, and its first
// words in the line that replays it. ctx is that of the code under test. If ctx
// has ended, Step returns its error and does nothing.
//
// Step blocks until the controller lets its process go on. The process may die
// behind effect, stand still before it, or get no answer: that is
// [ErrNoAnswer], with effect done, undone, or done later. Otherwise Step
// returns the error of effect. effect must be one step for those who look from
// outside, and must not block. If ctx is not that of a process, Step breaks the
// run and does nothing.
func (w *World) Step(ctx context.Context, what string, effect func() error) error {
	p, err := processOf(ctx)
	if err != nil {
		w.fail(fmt.Errorf("%s: %w\n%s", what, err, ownCode(string(debug.Stack()))))
		return err
	}
	if err := ctx.Err(); err != nil {
		p.freeze()
		w.log(p, outcome(what+": not sent, its ctx has ended", context.Cause(ctx)))
		return err
	}
	k := p.pass(what, stepKinds, outside)
	switch k {
	case lostRequest:
		return ErrNoAnswer
	case late:
		return w.stepLate(ctx, p, what, effect)
	case pause, longPause:
		if p.stand(k, outside) == over {
			k = over
		}
	}
	if k == over {
		p.cutOff()
	}
	err = effect()
	w.log(p, outcome(what, err))
	switch k {
	case crash:
		p.crash()
	case lostAnswer:
		w.unheard(p)
		err = ErrNoAnswer
	}
	p.freezeAt(what)
	return err
}

// stepLate is Step for a request that arrives late.
func (w *World) stepLate(ctx context.Context, p *process, what string, effect func() error) (err error) {
	var arrived error
	done := w.network(p.length(late), func() {
		arrived = effect()
		w.log(p, outcome(what+" arrives", arrived))
	})
	select {
	case <-done:
		err = arrived
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.end:
	}
	p.freeze()
	return err
}

// network carries a request that is late.
func (w *World) network(d time.Duration, arrive func()) (done chan struct{}) {
	done = make(chan struct{})
	w.mu.Lock()
	w.running++
	w.mu.Unlock()
	go func() { // ends after d
		defer w.leave()
		defer close(done)
		select {
		case <-time.After(d):
		case <-w.end:
			return
		}
		if w.wire.pass("arrival", minor, outside) != over {
			arrive()
		}
	}()
	return done
}

func (w *World) leave() {
	w.mu.Lock()
	w.running--
	w.mu.Unlock()
	w.notify()
}

// notify wakes the controller as soon as all goroutines wait, and not before:
// it would change the order in which they go on.
func (w *World) notify() { w.arrived.Reset(time.Nanosecond) }

func (w *World) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

// try calls f, which what names, and keeps its error or panic.
func (w *World) try(what string, f func() error) {
	defer func() {
		if r := recover(); r != nil {
			w.fail(fmt.Errorf("%s panics: %v\n%s", what, r, ownCode(string(debug.Stack()))))
		}
	}()
	if err := f(); err != nil {
		w.fail(err)
	}
}

func (w *World) log(p *process, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.say(p, text, false)
}

// say needs mu. After the end of the run it says nothing.
func (w *World) say(p *process, text string, fault bool) {
	select {
	case <-w.end:
	default:
		text = strings.ReplaceAll(text, "\n", "; ")
		w.lines = append(w.lines, line{time.Since(w.start), p.name, text, fault})
	}
}

// unheard tells that there is no answer, though the effect is there.
func (w *World) unheard(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.say(p, "THE ANSWER IS LOST", true)
}

// unpark needs mu.
func (w *World) unpark(which func(*gate) bool) { w.parked = slices.DeleteFunc(w.parked, which) }

func (w *World) newProcess(name string) *process {
	p := &process{
		w: w, name: name, gates: make(map[string]int), gone: make(chan struct{}), end: make(chan struct{}),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.procs = append(w.procs, p)
	slices.SortStableFunc(w.procs, func(a, b *process) int { return cmp.Compare(a.name, b.name) })
	return p
}

// spawn makes a process. After the end of the run it ends the goroutine.
func (w *World) spawn(name string) *process {
	select {
	case <-w.end:
		runtime.Goexit()
	default:
	}
	p := w.newProcess(name)
	var keeps locker.Locker = &store{Locker: w.store.Peer(), p: p}
	if w.leases != nil {
		keeps = w.leases.locker(p)
	}
	var err error
	p.guard, err = guard.New(keeps, guard.WithName(name), guard.WithObserver(asks{p: p}),
		guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	p.ctx, p.cancel = context.WithCancel(context.WithValue(context.Background(), processKey{}, p))
	return p
}

// forget loses all keys and results.
func (w *World) forget() {
	if w.leases != nil {
		w.leases.forget()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(w.keys)) {
		w.store.Lose(key)
		_, _ = w.store.Forget(context.Background(), key)
	}
}

// finish ends all goroutines of the run, after the check.
func (w *World) finish() {
	close(w.end)
	close(w.wire.end)
	w.mu.Lock()
	procs := slices.DeleteFunc(slices.Clone(w.procs), func(p *process) bool { return p == w.wire })
	w.mu.Unlock()
	synctest.Wait()
	for _, p := range procs {
		p.cancel()
		close(p.end)
		synctest.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, p := range procs {
		_ = p.guard.Close(ctx)
	}
	time.Sleep(lifetime) // so that goroutines that sleep come to their next gate, and end there
	for _, f := range slices.Backward(w.cleanups) {
		w.try("a cleanup", func() error { f(); return nil })
	}
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range procs {
		if keys := p.held(); len(keys) > 0 {
			w.errs = append(w.errs, fmt.Errorf("process %s has returned, and never releases %s", p.name,
				strings.Join(keys, ", ")))
		}
		if !p.returned && !p.dead {
			w.errs = append(w.errs, fmt.Errorf("process %s blocks for good, even when its ctx has ended", p.name))
		}
	}
}

// result returns what came of the run.
func (w *World) result() *result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &result{
		plan: w.plan, err: errors.Join(w.errs...),
		decisions: slices.Clone(w.decisions), lines: slices.Clone(w.lines), trace: w.trace.sum,
	}
}

//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// Settings are those of a run.
type Settings struct {
	Store              string
	Length             time.Duration
	Processes, Callers int // callers in each process
	TTL                time.Duration
	Modes              bool // some calls share a key, or take a permit
	Once               bool // calls want results, see payments
	Pooler             string
}

// Place is what the storm rages in.
type Place struct {
	Addresses []string // how a process gets to the store
	Faults    []Fault  // beside those of processes

	// Left returns keys that are owned or waited for.
	Left func(ctx context.Context) ([]string, error)

	pooler string   // of the settings
	ends   []func() // of what was started
}

// ending has f called when the storm is over, before what was started earlier.
func (p *Place) ending(f func()) { p.ends = append(p.ends, f) }

func (p *Place) end() {
	for _, f := range slices.Backward(p.ends) {
		f()
	}
}

// at makes the place of a store with an address, and the store's tables.
func (p *Place) at(ctx context.Context, dsn string) error {
	p.Addresses = []string{dsn}
	p.Left = func(ctx context.Context) (keys []string, err error) {
		err = look(ctx, dsn, func(g *guard.Guard) error {
			for k, err := range g.List(ctx) {
				if err != nil {
					return err
				}
				keys = append(keys, k.Key)
			}
			return nil
		})
		return keys, err
	}
	return look(ctx, dsn, func(*guard.Guard) error { return nil })
}

// look calls f with a guard on the store at dsn.
func look(ctx context.Context, dsn string, f func(g *guard.Guard) error) error {
	l, err := locker.FromDSN(dsn)
	if err != nil {
		return err
	}
	if m, ok := l.(interface {
		Migrate(ctx context.Context) error
	}); ok {
		if err := m.Migrate(ctx); err != nil {
			return err
		}
	}
	g, err := guard.New(l)
	if err != nil {
		return err
	}
	defer func() { _ = g.Close(ctx) }()
	return f(g)
}

// Fault is a fault of the store or of the way to it.
type Fault struct {
	Name string

	// Strike lets the fault happen, and mends it after some length.
	Strike func(length time.Duration) error
}

// keys is how many keys there are.
const keys = 3

// Report is the result of a run.
type Report struct {
	sections, fenced int            // fenced: sections of a process that was stopped, and came too late
	faults           map[string]int // by name
	violations       []string
	left             []string      // keys that stay
	gap              time.Duration // the longest without a section on a key
	runs, results    int           // functions that ran for a result, and results that callers got
}

// Failed reports whether a promise was broken, or nothing was done.
func (r Report) Failed() bool {
	return len(r.violations) > 0 || len(r.left) > 0 || r.sections+r.results == 0
}

func (r Report) String() string {
	return fmt.Sprintf("%d sections, %d fenced off, longest gap %v; %d runs for %d results; faults %v; "+
		"%d violations %v; %d keys left %v",
		r.sections, r.fenced, r.gap.Round(time.Millisecond), r.runs, r.results, r.faults,
		len(r.violations), r.violations, len(r.left), r.left)
}

// storm is a run.
type storm struct {
	Settings
	Place

	judge   *court
	workers []*worker
	log     io.Writer
}

// Run lets faults happen for s.Length, one after the other, and tells log of
// each.
func Run(ctx context.Context, s Settings, p Place, log io.Writer) (_ Report, err error) {
	w := &storm{Settings: s, Place: p, log: log}
	if w.judge, err = newCourt(); err != nil {
		return Report{}, err
	}
	defer func() {
		for _, one := range w.workers {
			one.kill()
		}
	}()
	for range s.Processes {
		if err := w.addWorker(); err != nil {
			return Report{}, err
		}
	}
	for start := time.Now(); time.Since(start) < s.Length; {
		if err := w.strike(); err != nil {
			return Report{}, err
		}
		time.Sleep(time.Second + rand.N(2*time.Second)) // it must serve again meanwhile
	}
	return w.finish(ctx)
}

func (w *storm) addWorker() error {
	one, err := startWorker(workerSettings{w.Settings, w.judge.listener.Addr().String(), w.Addresses})
	if err == nil {
		w.workers = append(w.workers, one)
	}
	return err
}

// strike lets one fault happen.
func (w *storm) strike() error {
	faults := append([]Fault{{"process killed", w.killOne}, {"process stopped", w.stopOne}}, w.Faults...)
	f, length := faults[rand.N(len(faults))], time.Duration(rand.N(int64(2*w.TTL)))
	fmt.Fprintln(w.log, f.Name, length.Round(time.Millisecond))
	w.judge.fault(f.Name)
	if err := f.Strike(length); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return nil
}

func (w *storm) killOne(time.Duration) error {
	w.workers[0].kill()
	w.workers = slices.Delete(w.workers, 0, 1)
	return w.addWorker()
}

func (w *storm) stopOne(length time.Duration) error {
	p := w.workers[rand.N(len(w.workers))].cmd.Process
	w.judge.stops(p.Pid)
	_ = p.Signal(syscall.SIGSTOP)
	time.Sleep(length)
	return p.Signal(syscall.SIGCONT)
}

// finish ends the processes as a service would end, and looks what they have
// left.
func (w *storm) finish(ctx context.Context) (Report, error) {
	for _, one := range w.workers {
		one.end()
	}
	w.workers = nil
	var left []string
	for start := time.Now(); time.Since(start) < w.TTL+time.Minute; time.Sleep(100 * time.Millisecond) {
		var err error
		if left, err = w.Left(ctx); err != nil {
			return Report{}, fmt.Errorf("look at what is left: %w", err)
		}
		if len(left) == 0 {
			break
		}
	}
	r := w.judge.close()
	r.left = left
	return r, nil
}

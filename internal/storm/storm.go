//go:build unix

// Package storm runs processes that want the same keys of a store, while faults
// happen to them, and those that the store's own tests know. It reports each
// section that ran beside another on its key, each fencing token that fell,
// keys that stay, and payments with two results. A process is the program once
// more.
package storm

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// Settings are those of a run.
type Settings struct {
	Length             time.Duration
	Processes, Callers int // callers in each process
	TTL                time.Duration
	Modes              bool // some calls share a key, or take a permit
	Once               bool // calls want results, see payments
}

// Flags defines a flag for each setting but the roles.
func (s *Settings) Flags() {
	flag.DurationVar(&s.Length, "for", time.Minute, "how long")
	flag.IntVar(&s.Processes, "processes", 3, "processes that want keys")
	flag.IntVar(&s.Callers, "callers", 4, "callers in each")
	flag.DurationVar(&s.TTL, "ttl", 3*time.Second, "TTL of the leases")
}

// RoleFlags defines the flags of a store that has modes and keeps results.
func (s *Settings) RoleFlags() {
	flag.BoolVar(&s.Modes, "modes", false, "most calls for two of the three keys share them, or take a permit")
	flag.BoolVar(&s.Once, "once", false, "calls want the result of a key, half of them at most once")
}

// Place is what the storm rages in.
type Place struct {
	Addresses []string // how a process gets to the store
	Faults    []Fault  // beside those of processes

	// Left returns keys that are owned or waited for.
	Left func(ctx context.Context) ([]string, error)
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

	judge   *judge
	workers []*worker
	log     io.Writer
}

// Run lets faults happen for s.Length, one after the other, and tells log of
// each.
func Run(ctx context.Context, s Settings, p Place, log io.Writer) (_ Report, err error) {
	w := &storm{Settings: s, Place: p, log: log}
	if w.judge, err = newJudge(); err != nil {
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
	one, err := startWorker(workerSettings{
		Judge: w.judge.listener.Addr().String(), Callers: w.Callers, TTL: w.TTL, Modes: w.Modes, Once: w.Once,
		Addresses: w.Addresses,
	})
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

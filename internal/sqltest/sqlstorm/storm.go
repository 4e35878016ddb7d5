//go:build unix

// Package sqlstorm runs processes that want the same keys of a store of leases,
// while faults happen to them, to the network and to the server. It reports
// each section that ran beside another on its key, each fencing token that
// fell, keys that stay, and payments with two results. A process is the program
// once more.
package sqlstorm

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/sqltest"
)

// Settings are those of a run.
type Settings struct {
	Length             time.Duration
	Processes, Callers int // callers in each process
	TTL                time.Duration
	Modes              bool // some calls share a key, or take a permit
	Once               bool // calls want results, see payments
}

// Flags defines a flag for each setting.
func (s *Settings) Flags() {
	flag.DurationVar(&s.Length, "for", time.Minute, "how long")
	flag.IntVar(&s.Processes, "processes", 3, "processes that want keys")
	flag.IntVar(&s.Callers, "callers", 4, "callers in each")
	flag.DurationVar(&s.TTL, "ttl", 3*time.Second, "TTL of the leases")
	flag.BoolVar(&s.Modes, "modes", false, "most calls for two of the three keys share them, or take a permit")
	flag.BoolVar(&s.Once, "once", false, "calls want the result of a key, half of them at most once")
}

// Place is what the storm rages in.
type Place struct {
	Server *sqltest.Server // nil: the store is a file, and only processes have faults
	Pooler *sqltest.Server // may be nil

	// Addresses are how a process gets to the server, through the pipe that is
	// given its host and port. A process gets all of them.
	Addresses func(pipe string) []string

	// Left returns keys that are owned or waited for.
	Left func(ctx context.Context) ([]string, error)
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
	pipe    *faultpipe.Pipe // between the processes and the server, or the pooler
	still   atomic.Bool     // bytes wait in the pipe
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
	if w.pipe, err = faultpipe.New(ctx); err != nil {
		return Report{}, err
	}
	defer w.pipe.Close()
	defer w.still.Store(false)
	w.pipe.Serve(w.link)
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
		Addresses: w.Addresses(w.pipe.Addr),
	})
	if err == nil {
		w.workers = append(w.workers, one)
	}
	return err
}

// strike lets one fault happen, and mends it.
func (w *storm) strike() error {
	length := time.Duration(rand.N(int64(2 * w.TTL)))
	faults := []struct {
		name string
		f    func(length time.Duration) error
	}{
		{"process killed", func(time.Duration) error {
			w.workers[0].kill()
			w.workers = slices.Delete(w.workers, 0, 1)
			return w.addWorker()
		}},
		{"process stopped", func(length time.Duration) error {
			p := w.workers[rand.N(len(w.workers))].cmd.Process
			w.judge.stops(p.Pid)
			_ = p.Signal(syscall.SIGSTOP)
			time.Sleep(length)
			return p.Signal(syscall.SIGCONT)
		}},
		{"server killed", func(length time.Duration) error {
			w.Server.Kill()
			time.Sleep(length)
			return w.Server.Restart()
		}},
		{"server stopped", func(length time.Duration) error {
			w.Server.Pause()
			time.Sleep(length)
			w.Server.Resume()
			return nil
		}},
		{"connections cut", func(time.Duration) error {
			w.pipe.Cut(func(faultpipe.Link) bool { return rand.N(2) == 0 })
			return nil
		}},
		{"all cut off", func(length time.Duration) error {
			w.still.Store(true)
			time.Sleep(length)
			w.still.Store(false)
			w.pipe.Cut(nil)
			return nil
		}},
		{"pooler killed", func(length time.Duration) error {
			w.Pooler.Kill()
			time.Sleep(length / 2)
			return w.Pooler.Restart()
		}},
	}
	switch {
	case w.Server == nil:
		faults = faults[:2]
	case w.Pooler == nil:
		faults = faults[:len(faults)-1]
	}
	f := faults[rand.N(len(faults))]
	fmt.Fprintln(w.log, f.name, length.Round(time.Millisecond))
	w.judge.fault(f.name)
	if err := f.f(length); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// finish ends the processes as a service would end, and looks what they have
// left.
func (w *storm) finish(ctx context.Context) (Report, error) {
	for _, one := range w.workers {
		one.end()
	}
	w.workers = nil
	var left []string
	for start := time.Now(); time.Since(start) < w.TTL+30*time.Second; time.Sleep(100 * time.Millisecond) {
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

// link carries a connection of a process.
func (w *storm) link(client net.Conn) (faultpipe.Link, error) {
	to := w.Server
	if w.Pooler != nil {
		to = w.Pooler
	}
	server, err := net.Dial("tcp", to.Addr())
	if err != nil {
		return nil, err
	}
	return &link{w, client, server}, nil
}

// link keeps bytes back while the storm says so. Then the connection is cut.
type link struct {
	storm          *storm
	client, server net.Conn
}

func (k *link) Ends() (client, server net.Conn) { return k.client, k.server }
func (k *link) Up(b []byte) bool                { return k.pass(k.server, b) }
func (k *link) Down(b []byte) bool              { return k.pass(k.client, b) }

func (k *link) pass(to net.Conn, b []byte) bool {
	for k.storm.still.Load() {
		select {
		case <-k.storm.pipe.Closed():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	_, err := to.Write(b)
	return err == nil
}

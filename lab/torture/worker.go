package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// jobEnv marks a process as a worker and has its job.
const jobEnv = "GUARD_TORTURE_JOB"

type job struct {
	Library  string
	Mutant   string
	Replicas int
	Topology libs.Topology
	Addrs    []string
	Master   string
	Wire     string // the address of its wire to the servers
	Store    string // the address of the guarded resource
	Diary    string // a file
	Proc     int
	Life     int
	Callers  int
	Keys     int
	Long     int
	Roles    []string // none: writers
	TTL      time.Duration
	Seed     uint64
}

// worker is a process whose callers want the same few keys over and over, until
// its stdin ends.
type worker struct {
	job
	diary   *diary
	store   *store
	lib     *libs.Library
	locker  libs.Locker
	direct  *redis.Client // to a single server, past the failing network; otherwise nil
	over    chan struct{} // closed when the worker must end
	closing atomic.Bool
	visits  atomic.Int64
}

// workerMain is the main function of a worker.
func workerMain(text string, in io.Reader) (err error) {
	signal.Ignore(os.Interrupt)            // Ctrl-C reaches every process of the terminal; the parent decides
	redis.SetLogger(&logging.VoidLogger{}) // servers that are down are no news here
	w := worker{over: make(chan struct{})}
	if err := json.Unmarshal([]byte(text), &w.job); err != nil {
		return err
	}
	if w.diary, err = openDiary(w.Diary); err != nil {
		return err
	}
	chosen, err := libs.Named(w.Library)
	if err != nil {
		return err
	}
	w.lib, w.store = chosen[0], openStore(w.Store)
	if w.Topology == libs.Single {
		w.direct = redis.NewClient(&redis.Options{Addr: w.Addrs[0], MaxRetries: -1, ContextTimeoutEnabled: true})
	}
	before := census()
	var helpers sync.WaitGroup
	left := make(chan struct{})
	helpers.Go(func() {
		_, _ = io.Copy(io.Discard, in)
		close(left)
	})
	helpers.Go(func() { w.feelStalls(left) })
	if !w.open(left) {
		return nil
	}
	failures := make(chan error, w.Callers)
	var callers sync.WaitGroup
	for n := range w.Callers {
		callers.Go(func() {
			if err := w.loop(n); err != nil {
				failures <- err
			}
		})
	}
	select {
	case err := <-failures:
		return err
	case <-left:
	}
	helpers.Wait()
	return w.end(&callers, before)
}

// open sets the library up. It tries until it succeeds, because some libraries
// need a server for it. It returns false if the worker must end before.
func (w *worker) open(left <-chan struct{}) bool {
	for {
		l, err := w.newLocker()
		if err == nil {
			w.locker = l
			return true
		}
		select {
		case <-left:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// loop is one caller.
func (w *worker) loop(n int) error {
	rnd := rand.New(rand.NewPCG(w.Seed, uint64(w.Proc)<<32|uint64(w.Life)<<16|uint64(n)))
	for {
		select {
		case <-w.over:
			return nil
		default:
		}
		if err := w.visit(rnd); err != nil {
			return err
		}
	}
}

// end closes the locker and records its leftovers. In every second place and
// life it closes it while callers use it.
func (w *worker) end(callers *sync.WaitGroup, before counts) error {
	close(w.over)
	abrupt := (w.Proc+w.Life)%2 == 0
	if !abrupt {
		callers.Wait()
	}
	w.closing.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r := record{Kind: kindClosed, Asked: now()}
	if err := w.locker.Close(ctx); err != nil {
		r.Err = err.Error()
	}
	r.At = now()
	callers.Wait()
	err := w.store.close()
	if w.direct != nil {
		err = errors.Join(err, w.direct.Close())
	}
	if err != nil {
		return err
	}
	left := census().minus(before)
	for end := time.Now().Add(3 * time.Second); left != (counts{}) &&
		time.Now().Before(end); left = census().minus(before) {
		time.Sleep(10 * time.Millisecond)
	}
	r.Goroutines, r.Files = left.goroutines, left.files
	if left.goroutines > 0 {
		stacks := make([]byte, 16<<10)
		r.Err += string(stacks[:runtime.Stack(stacks, true)])
	}
	return w.diary.write(r)
}

// counts has the numbers of goroutines and files of a process.
type counts struct{ goroutines, files int }

func census() counts {
	files, _ := os.ReadDir("/proc/self/fd") // empty on systems without /proc
	return counts{runtime.NumGoroutine(), len(files)}
}

// minus returns the excess of c over others.
func (c counts) minus(o counts) counts {
	return counts{max(0, c.goroutines-o.goroutines), max(0, c.files-o.files)}
}

// A machine may be too busy to let a process run. A process that does not run
// cannot keep a time limit. So each worker records when its clock did not tick.
const (
	tick  = 5 * time.Millisecond
	stall = 15 * time.Millisecond
)

// feelStalls records the stalls of this process until it must end.
func (w *worker) feelStalls(left <-chan struct{}) {
	t := time.NewTicker(tick)
	defer t.Stop()
	last := now()
	for {
		select {
		case <-left:
			return
		case <-t.C:
		}
		at := now()
		if at-last > int64(stall) {
			_ = w.diary.write(record{Kind: kindStall, Asked: last, At: at})
		}
		last = at
	}
}

// newLocker sets the library up, with the mutant if there is one.
func (w *worker) newLocker() (libs.Locker, error) {
	s := libs.Setup{
		Topology: w.Topology, Addrs: w.Addrs, Master: w.Master, TTL: w.TTL, Dial: dialBy(w.Wire),
		RestartDelay: mostTTL + 500*time.Millisecond, Replicas: w.Replicas,
	}
	if slices.Contains(w.Roles, partition) {
		s.Options = append(s.Options, guard.WithLinger(lingers))
	}
	if w.Mutant == "" {
		return w.lib.Open(s)
	}
	return mutants[w.Mutant].open(s)
}

package contest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/judge"
)

// Diary keeps what happens.
type Diary interface {
	Write(r judge.Record) error
}

// Worker is a process whose callers want the same few keys over and over.
type Worker struct {
	Proc, Life int // its place, and how many have had it
	Callers    int
	Keys       int
	Long       int      // of a thousand sections, how many are about as long as the TTL or longer
	Roles      []string // none: writers
	TTL        time.Duration
	Seed       uint64

	Locker Locker
	Store  Store
	Diary  Diary
	Alone  bool // it has its process for itself, so that goroutines and files are its own

	// Probe asks the server how many ms the lease on a key will last; nil if
	// nobody can.
	Probe func(ctx context.Context, key int) (ms int64, err error)

	over    chan struct{} // closed when the worker must end
	closing atomic.Bool
	visits  atomic.Int64
	before  counts
}

// Prepare must be called before the Locker is made. It counts what is there.
func (w *Worker) Prepare() {
	w.over = make(chan struct{})
	if w.Alone {
		w.before = census()
	}
}

// Run lets callers come until left is closed. Then it closes the Locker, calls
// after, and looks what has stayed behind. An error means that the worker could
// not go on.
func (w *Worker) Run(left <-chan struct{}, after func() error) error {
	var helpers sync.WaitGroup
	helpers.Go(func() { w.feelStalls(left) })
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
	return w.end(&callers, after)
}

// loop is one caller.
func (w *Worker) loop(n int) error {
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
func (w *Worker) end(callers *sync.WaitGroup, after func() error) error {
	close(w.over)
	abrupt := (w.Proc+w.Life)%2 == 0
	if !abrupt {
		callers.Wait()
	}
	w.closing.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r := judge.Record{Kind: judge.KindClosed, Asked: judge.Now()}
	if err := w.Locker.Close(ctx); err != nil {
		r.Err = err.Error()
	}
	r.At = judge.Now()
	callers.Wait()
	if err := after(); err != nil {
		return err
	}
	if w.Alone {
		w.leftovers(&r)
	}
	return w.Diary.Write(r)
}

// leftovers counts what stays behind. It waits a while for that to go.
func (w *Worker) leftovers(r *judge.Record) {
	left := census().minus(w.before)
	for end := time.Now().Add(3 * time.Second); left != (counts{}) &&
		time.Now().Before(end); left = census().minus(w.before) {
		time.Sleep(10 * time.Millisecond)
	}
	r.Goroutines, r.Files = left.goroutines, left.files
	if left.goroutines > 0 {
		stacks := make([]byte, 16<<10)
		r.Err += string(stacks[:runtime.Stack(stacks, true)])
	}
	if left.files > 0 {
		r.Err += "files:" + fileNames()
	}
}

// fileNames returns the names of the files that the process has.
func fileNames() string {
	var names strings.Builder
	files, _ := os.ReadDir(openFiles)
	for _, f := range files {
		name, _ := os.Readlink(filepath.Join(openFiles, f.Name())) // fails for that of the reading itself
		fmt.Fprint(&names, " ", f.Name(), " ", name)
	}
	return names.String()
}

// openFiles has the files of the process; it is missing on some systems.
const openFiles = "/proc/self/fd"

// counts has the numbers of goroutines and files of a process.
type counts struct{ goroutines, files int }

func census() counts {
	files, _ := os.ReadDir(openFiles)
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
func (w *Worker) feelStalls(left <-chan struct{}) {
	t := time.NewTicker(tick)
	defer t.Stop()
	last := judge.Now()
	for {
		select {
		case <-left:
			return
		case <-t.C:
		}
		at := judge.Now()
		if at-last > int64(stall) {
			_ = w.Diary.Write(judge.Record{Kind: judge.KindStall, Asked: last, At: at})
		}
		last = at
	}
}

//go:build unix

// Package sqlcrowd tests a store of leases with several processes that are
// killed. A process is the test binary once more.
package sqlcrowd

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
)

const (
	// TTL of the leases.
	TTL = 2 * time.Second

	processes = 4
	callers   = 4 // of each process
	kills     = 4
)

const dirEnv, dsnEnv = "SQLCROWD_DIR", "SQLCROWD_DSN"

// Process is the work of another process, if this is one. It returns false
// otherwise. The process works on one key until it is killed.
func Process(store func(dsn string) (locker.Locker, error)) bool {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		return false
	}
	l, err := store(os.Getenv(dsnEnv))
	if err != nil {
		fmt.Println("fault", err)
		return true
	}
	g, err := guard.New(l, guard.WithTTL(TTL), guard.WithFencing(), guard.WithMaxWait(testguard.Patience))
	if err != nil {
		fmt.Println("fault", err)
		return true
	}
	for range callers {
		go func() { // ends with the process
			for {
				work := func(ctx context.Context) error { return section(ctx, dir) }
				if err := g.Do(context.Background(), "hot", work); err != nil {
					fmt.Println("fault", err)
				}
			}
		}()
	}
	select {}
}

// section is alone on the machine as long as the lease holds. The kernel frees
// the file when its process is killed.
func section(ctx context.Context, dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "section"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if ctx.Err() == nil {
			fmt.Println("overlap", err)
		}
		return nil
	}
	lease, _ := guard.LeaseFrom(ctx)
	var word [8]byte
	_, _ = f.ReadAt(word[:], 0) // empty at first
	last := binary.LittleEndian.Uint64(word[:])
	token, err := lease.FencingToken(ctx)
	if err != nil {
		return nil // the lease is lost
	}
	if token <= last {
		fmt.Println("falling", token, "after", last)
	}
	binary.LittleEndian.PutUint64(word[:], token)
	if _, err := f.WriteAt(word[:], 0); err != nil {
		return err
	}
	fmt.Println("section")
	return nil
}

// worker is a process and what it has said.
type worker struct {
	cmd      *exec.Cmd
	sections atomic.Int64
	done     chan struct{} // closed when the output has ended
}

func start(t *testing.T, dir, dsn string) *worker {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), dirEnv+"="+dir, dsnEnv+"="+dsn)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd: cmd, done: make(chan struct{})}
	go func() { // ends with the process
		defer close(w.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			switch what, _, _ := strings.Cut(s.Text(), " "); what {
			case "section":
				w.sections.Add(1)
			case "overlap", "falling", "fault":
				t.Error(s.Text())
			}
		}
	}()
	return w
}

func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	<-w.done
	_ = w.cmd.Wait()
}

// works blocks until w has had a turn more than it had.
func (w *worker) works(t *testing.T) {
	t.Helper()
	had := w.sections.Load()
	testguard.Eventually(t, "a process gets another turn", func() bool { return w.sections.Load() > had })
}

// Test has processes work on one key of the store. One after the other is
// killed, whether it owns the key, waits for it, or is in the middle of a
// request. No two may be in their sections at once, tokens rise, and all others
// get turns afterwards. It logs the longest wait.
func Test(t *testing.T, dsn string) {
	dir := t.TempDir()
	crowd := make([]*worker, processes)
	for i := range crowd {
		crowd[i] = start(t, dir, dsn)
		defer func() { crowd[i].kill() }()
	}
	var longest time.Duration
	for n := range kills {
		for _, w := range crowd {
			w.works(t)
		}
		victim := n % processes
		crowd[victim].kill()
		began := time.Now()
		crowd[(victim+1)%processes].works(t)
		longest = max(longest, time.Since(began))
		crowd[victim] = start(t, dir, dsn)
	}
	var counts []int64
	for _, w := range crowd {
		counts = append(counts, w.sections.Load())
	}
	t.Logf("after a kill a neighbour had its turn within %v; sections of the last processes: %v", longest, counts)
}

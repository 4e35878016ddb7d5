// Package rig has the parts that the tests of docs/faults.md share. They are
// processes in a role, clients that can be moved to another server, and
// replicas behind a network. It also counts the goroutines that a test has left
// running.
package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/lab/internal/childproc"
)

// Long is the TTL of a lease that must not end in a test. It is longer than
// [Eventually] waits, so that a key which is not released stays.
const Long = 2 * testguard.Patience

// Slow is the extra time that a test allows for a busy machine.
const Slow = 2 * time.Second

// Part is the job of a [Process]. It plays a role with the server at Addr.
type Part struct{ Role, Addr string }

// Process is a second process of this test binary, in a role. It says words to
// the test, and ends with it.
type Process struct {
	*childproc.Child[string]

	t *testing.T
}

// Spawn starts a process whose TestMain plays the role, with the server at
// addr.
func Spawn(t *testing.T, role, addr string) *Process {
	t.Helper()
	c, err := childproc.Start[string](t.Context(), "", Part{role, addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		if words := c.LastWords(); words != "" {
			t.Log(words)
		}
	})
	return &Process{c, t}
}

// Says waits until the process says words with that beginning.
func (p *Process) Says(what string) string {
	p.t.Helper()
	limit := time.After(testguard.Patience)
	for {
		select {
		case words, ok := <-p.Said:
			if !ok {
				p.t.Fatalf("the process ended before it said %q", what)
			}
			if strings.HasPrefix(words, what) {
				return words
			}
		case <-limit:
			p.t.Fatalf("the process does not say %q", what)
		}
	}
}

// Stop freezes the process, and returns when it is frozen.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGSTOP)
	testguard.Eventually(p.t, "the process is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
		if err != nil {
			p.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "T")
	})
}

// Route is the way of a client to a server that can be replaced, as behind a
// name or a virtual address that moves in a failover. It is safe for concurrent
// use.
type Route struct{ addr atomic.Pointer[string] }

// NewRoute returns a route to addr and a client that uses it.
func NewRoute(t *testing.T, addr string) (*Route, *redis.Client) {
	t.Helper()
	r := &Route{}
	r.To(addr)
	rdb := redis.NewClient(&redis.Options{Addr: addr, Dialer: r.Dial})
	t.Cleanup(func() { _ = rdb.Close() })
	return r, rdb
}

// Dial connects to the present server of the route.
func (r *Route) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, *r.addr.Load())
}

// To changes the server for new connections.
func (r *Route) To(addr string) { r.addr.Store(&addr) }

// Follow waits until replica follows a primary. replica was started with
// --replicaof.
func Follow(t *testing.T, replica *redistest.Server) {
	t.Helper()
	rdb := redistest.Client(t, replica.Addr)
	testguard.Eventually(t, "the replica follows", func() bool {
		role, _ := rdb.Do(t.Context(), "role").Slice()
		return len(role) > 3 && fmt.Sprint(role[3]) == "connected"
	})
}

// ReplicaArgs returns the arguments of a server that follows the server at addr
// at once.
func ReplicaArgs(addr string) []string {
	host, port, _ := net.SplitHostPort(addr)
	return []string{"--replicaof", host + " " + port, "--repl-diskless-sync-delay", "0"}
}

// Label is a profiler label that the goroutines of one test carry. Goroutines
// inherit it from their starters. Goroutines of timers have none.
const Label = "fault"

// Goroutines returns the stacks of the goroutines that carry a test's label.
func Goroutines(test string) (stacks []string) {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
	_, profile, _ := strings.Cut(all.String(), "\n") // its first line has the total
	for stack := range strings.SplitSeq(profile, "\n\n") {
		if strings.Contains(stack, fmt.Sprintf("%q:%q", Label, test)) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// Running returns the number of these goroutines.
func Running(test string) (n int) {
	for _, stack := range Goroutines(test) {
		alike := 0
		_, _ = fmt.Sscan(stack, &alike)
		n += alike
	}
	return n
}

package jobtest

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/go-lockguard/guard"
)

// The environment of a worker process.
const (
	nameEnv  = "GUARD_JOBTEST_WORKER"
	hangsEnv = "GUARD_JOBTEST_HANGS"
)

// Name returns the name of the worker that this process is, or "" in the test
// itself.
func Name() string { return os.Getenv(nameEnv) }

// Hangs reports whether this worker is to hang in each job until it is killed.
func Hangs() bool { return os.Getenv(hangsEnv) != "" }

// Process is the test binary once more, as a worker.
type Process struct {
	name   string
	ledger Ledger
	cmd    *exec.Cmd
	exited bool
}

// Start starts a process that runs the test of the given name alone: it must be
// one that works until it is killed if [Name] is not "". env is added to the
// environment. The process is killed when t ends.
func (l Ledger) Start(t testing.TB, test, name string, env ...string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.timeout=5m")
	cmd.Env = append(append(os.Environ(), env...), nameEnv+"="+name)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{name: name, ledger: l, cmd: cmd}
	t.Cleanup(p.end)
	return p
}

// StartHanging is Start for a worker that hangs in its jobs.
func (l Ledger) StartHanging(t testing.TB, test, name string, env ...string) *Process {
	t.Helper()
	return l.Start(t, test, name, append(env, hangsEnv+"=1")...)
}

// Kill kills the process, as kill -9 does, and notes that it is dead.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.end()
	if err := p.ledger.note(t.Context(), event{killed, p.name, "-", "-"}); err != nil {
		t.Fatal(err)
	}
}

func (p *Process) end() {
	if p.exited {
		return
	}
	p.exited = true
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Asking is an observer of a worker's guard. It notes each call that asks for a
// key.
func (l Ledger) Asking() guard.Observer { return asking{ledger: l} }

type asking struct {
	guard.NopObserver

	ledger Ledger
}

// WaitStart implements [guard.Observer]. It blocks for a request.
func (a asking) WaitStart(ctx context.Context, w guard.WaitInfo) context.Context {
	_ = a.ledger.note(ctx, event{asked, Name(), w.Key, "-"}) // without it the test waits in vain
	return ctx
}

// Hang works until ctx ends.
func Hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

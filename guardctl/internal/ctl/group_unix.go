//go:build unix

package ctl

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// group is a command and what it starts: a process group of its own, unless the
// command reads a terminal. There it stays in guardctl's group, so that it may
// read, and Ctrl-C and Ctrl-Z reach both.
type group struct {
	command  *exec.Cmd
	own      bool
	deadline time.Time // after terminate: when what is left of the group is killed
}

func newGroup(c *exec.Cmd) *group {
	f, ok := c.Stdin.(*os.File)
	g := &group{command: c, own: !ok || !term.IsTerminal(int(f.Fd()))}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: g.own}
	dieWithParent(c.SysProcAttr)
	return g
}

// terminate tells the command to end, and its group. It runs before Wait
// returns. Package exec kills the command itself when its WaitDelay is over.
func (g *group) terminate(s os.Signal) error {
	g.deadline = time.Now().Add(g.command.WaitDelay)
	if g.has(s) {
		s = syscall.SIGTERM
	}
	err := g.signal(s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// pass tells the command, and its group, what guardctl was told. A group that
// is gone needs nothing.
func (g *group) pass(s os.Signal) {
	if !g.has(s) {
		_ = g.signal(s)
	}
}

// has reports whether the terminal has sent s to the command too.
func (g *group) has(s os.Signal) bool {
	return !g.own && (s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGHUP || s == syscall.SIGWINCH)
}

func (g *group) signal(s os.Signal) error {
	if n, ok := s.(syscall.Signal); ok && g.own {
		return syscall.Kill(-g.command.Process.Pid, n)
	}
	return g.command.Process.Signal(s)
}

// passed returns the signals that go on to the command and end nothing. They
// are all that a program may handle. Left out are those that stop a process and
// let it go on, those about guardctl itself, and those that Go needs.
func passed() (all []os.Signal) {
	const last = 64
	for s := syscall.Signal(1); s <= last; s++ {
		switch s {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT,
			syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGXCPU, syscall.SIGXFSZ,
			syscall.SIGURG, syscall.SIGPROF, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE,
			syscall.SIGSEGV, syscall.SIGSYS:
		default:
			if !slices.Contains(ends, os.Signal(s)) {
				all = append(all, s)
			}
		}
	}
	return all
}

// goneLimit is how long a killed process may take to be gone.
const goneLimit = time.Second

// end comes after the command has ended. If its own group was told to end, end
// blocks until that is gone. It kills what is left at the deadline.
func (g *group) end() {
	if !g.own || g.deadline.IsZero() || g.gone(g.deadline) {
		return
	}
	_ = g.signal(syscall.SIGKILL)
	g.gone(time.Now().Add(goneLimit))
}

// gone reports whether nothing is left of the group by the deadline.
func (g *group) gone(by time.Time) bool {
	for g.reap(); g.signal(syscall.Signal(0)) == nil; g.reap() {
		if time.Now().After(by) {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// adopt takes the status of the processes that the command has left to
// guardctl, as process 1 of a container must. stop ends that and waits.
func (g *group) adopt() (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCHLD)
	var over sync.WaitGroup
	over.Go(func() { // ends with stop
		for range c {
			g.reap()
		}
	})
	return func() {
		signal.Stop(c)
		close(c)
		over.Wait()
	}
}

func exitStatus(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return statusSignal + int(w.Signal())
	}
	return state.ExitCode()
}

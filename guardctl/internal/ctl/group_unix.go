//go:build unix

package ctl

import (
	"errors"
	"os"
	"os/exec"
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

// terminate asks the command to end, and its group. It runs before Wait
// returns. Package exec kills the command itself when its WaitDelay is over.
func (g *group) terminate() error {
	g.deadline = time.Now().Add(g.command.WaitDelay)
	err := g.signal(syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

func (g *group) signal(s syscall.Signal) error {
	if g.own {
		return syscall.Kill(-g.command.Process.Pid, s)
	}
	return g.command.Process.Signal(s)
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
	for g.reap(); g.signal(0) == nil; g.reap() {
		if time.Now().After(by) {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// reap takes the status of those of the group that have ended and whom guardctl
// has adopted, as process 1 of a container does. They are there until then. The
// command itself has ended before.
func (g *group) reap() {
	for {
		if pid, err := syscall.Wait4(-g.command.Process.Pid, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}

func exitStatus(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return statusSignal + int(w.Signal())
	}
	return state.ExitCode()
}

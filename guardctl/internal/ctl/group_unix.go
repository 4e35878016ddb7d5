//go:build unix

package ctl

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// group is the process group of a command. A command that reads a terminal has
// the foreground of it.
type group struct {
	command  *exec.Cmd
	terminal int       // its file, or -1
	deadline time.Time // after terminate: when what is left of the group is killed
}

func newGroup(c *exec.Cmd) *group {
	g := &group{command: c, terminal: -1}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.SysProcAttr)
	if f, ok := c.Stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		g.terminal = int(f.Fd())
		c.SysProcAttr.Foreground, c.SysProcAttr.Ctty = true, g.terminal
	}
	return g
}

// terminate asks the group to end. It runs before Wait returns. Package exec
// kills the command itself when its WaitDelay is over.
func (g *group) terminate() error {
	g.deadline = time.Now().Add(g.command.WaitDelay)
	err := syscall.Kill(-g.command.Process.Pid, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// end comes after the command has ended. If the group was told to end, end
// blocks until it has, and kills what is left at the deadline. Then it takes the
// terminal back.
func (g *group) end() {
	if !g.deadline.IsZero() {
		pid := g.command.Process.Pid
		for time.Now().Before(g.deadline) && syscall.Kill(-pid, 0) == nil {
			time.Sleep(10 * time.Millisecond)
		}
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	if g.terminal >= 0 {
		signal.Ignore(syscall.SIGTTOU) // which stops who is not in the foreground
		defer signal.Reset(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(g.terminal, unix.TIOCSPGRP, syscall.Getpgrp())
	}
}

func exitStatus(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return statusSignal + int(w.Signal())
	}
	return state.ExitCode()
}

//go:build !unix

package ctl

import (
	"os"
	"os/exec"
)

// group is a command alone: there are no process groups with signals.
type group struct{ command *exec.Cmd }

func newGroup(c *exec.Cmd) *group { return &group{c} }

func (g *group) terminate(os.Signal) error { return g.command.Process.Kill() }

func (g *group) pass(os.Signal) {}

func passed() []os.Signal { return nil }

func (g *group) adopt() (stop func()) { return func() {} }

func (g *group) end() {}

func exitStatus(state *os.ProcessState) int { return state.ExitCode() }

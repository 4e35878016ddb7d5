//go:build unix && !linux

package ctl

import "syscall"

// dieWithParent does nothing: the kernel has no such signal.
func dieWithParent(*syscall.SysProcAttr) {}

// reap takes the status of those of the group that have ended, and whose parent
// is guardctl now. The command itself has ended before.
func (g *group) reap() {
	if g.deadline.IsZero() {
		return
	}
	for {
		if pid, err := syscall.Wait4(-g.command.Process.Pid, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}

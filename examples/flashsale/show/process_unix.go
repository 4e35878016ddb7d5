//go:build unix

package show

import "syscall"

// canStop says that a process can be stopped and continued here.
const canStop = true

// halt stops the process where it stands: the longest garbage collection, the
// slowest disk, a suspended machine.
func (in *instance) halt() error { return in.cmd.Process.Signal(syscall.SIGSTOP) }

// resume lets it go on, as if nothing had happened.
func (in *instance) resume() error { return in.cmd.Process.Signal(syscall.SIGCONT) }

package show

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the child when the parent is killed, even a
// child that is stopped and cannot see the end of its stdin.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

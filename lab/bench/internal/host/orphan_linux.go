package host

import (
	"os/exec"
	"syscall"
)

// DieWithParent makes the kernel end cmd when this process is killed.
func DieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

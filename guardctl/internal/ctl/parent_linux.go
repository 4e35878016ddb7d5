package ctl

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// dieWithParent lets the kernel kill the command when its parent dies.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// adopts says that this process is the parent of all that have lost their own.
// Its children that are not the command are such.
var adopts = os.Getpid() == 1

// reap takes the status of the adopted processes that have ended. They are
// zombies until then. That of the command is for Wait.
func (g *group) reap() {
	if !adopts {
		return
	}
	for pid := zombie(); pid > 0 && pid != g.command.Process.Pid; pid = zombie() {
		if _, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); err != nil {
			return
		}
	}
}

// zombie returns the id of a child that has ended, or 0. It leaves it there.
func zombie() (pid int) {
	const anyChild, pidAt = 0, 2 + strconv.IntSize/32
	const look = syscall.WEXITED | syscall.WNOWAIT | syscall.WNOHANG
	var info [32]int32                   // siginfo_t: three numbers, perhaps a gap, the process id
	at := uintptr(unsafe.Pointer(&info)) //nolint:gosec // as in package os
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, anyChild, 0, at, look, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(info[pidAt])
}

package ctl

import "syscall"

// dieWithParent lets the kernel kill the command when its parent dies.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

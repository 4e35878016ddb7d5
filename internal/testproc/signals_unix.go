//go:build unix

package testproc

import "syscall"

const (
	SigStop = syscall.SIGSTOP // SigStop freezes a process.
	SigCont = syscall.SIGCONT // SigCont lets it go on.
)

//go:build unix

package testproc

import "syscall"

// SigStop freezes a process, and SigCont lets it go on.
const (
	SigStop = syscall.SIGSTOP
	SigCont = syscall.SIGCONT
)

//go:build !unix

package testproc

import "syscall"

// There are no such signals here, so sending one fails.
const (
	SigStop = syscall.Signal(-1) // SigStop freezes a process.
	SigCont = syscall.Signal(-2) // SigCont lets it go on.
)

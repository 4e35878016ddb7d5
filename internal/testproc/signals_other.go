//go:build !unix

package testproc

import "syscall"

// SigStop and SigCont are no signals here, so sending one fails.
const (
	SigStop = syscall.Signal(-1)
	SigCont = syscall.Signal(-2)
)

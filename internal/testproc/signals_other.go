//go:build !unix

package testproc

import "syscall"

// There are no such signals here, so sending one fails.
const SigStop, SigCont = syscall.Signal(-1), syscall.Signal(-2)

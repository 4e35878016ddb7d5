//go:build !unix

package redisproc

import "syscall"

// There are no such signals here, so sending one fails.
const sigStop, sigCont = syscall.Signal(-1), syscall.Signal(-2)

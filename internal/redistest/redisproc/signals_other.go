//go:build !unix

package redisproc

import "syscall"

// There are none here: to send one fails.
const sigStop, sigCont = syscall.Signal(-1), syscall.Signal(-2)

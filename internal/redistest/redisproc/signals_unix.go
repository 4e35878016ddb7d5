//go:build unix

package redisproc

import "syscall"

const sigStop, sigCont = syscall.SIGSTOP, syscall.SIGCONT

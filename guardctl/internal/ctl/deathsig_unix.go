//go:build unix && !linux

package ctl

import "syscall"

// dieWithParent does nothing: the kernel has no such signal.
func dieWithParent(*syscall.SysProcAttr) {}

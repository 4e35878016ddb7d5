//go:build !linux

package main

import "os/exec"

// dieWithParent does nothing here: a child ends when its stdin does, and the server is stopped in good order.
func dieWithParent(*exec.Cmd) {}

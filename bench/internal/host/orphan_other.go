//go:build !linux

package host

import "os/exec"

// DieWithParent does nothing here: a child ends when its stdin does, and the
// server is stopped in good order.
func DieWithParent(*exec.Cmd) {}

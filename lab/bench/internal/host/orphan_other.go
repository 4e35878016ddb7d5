//go:build !linux

package host

import "os/exec"

// DieWithParent does nothing here. A child ends when its stdin ends, and the
// server is stopped in good order.
func DieWithParent(*exec.Cmd) {}

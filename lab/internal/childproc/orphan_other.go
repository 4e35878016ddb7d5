//go:build !linux

package childproc

import "os/exec"

// dieWithParent does nothing here. A child ends when its stdin ends.
func dieWithParent(*exec.Cmd) {}

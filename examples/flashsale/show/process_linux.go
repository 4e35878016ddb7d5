package show

import "syscall"

// init has the kernel end children whose parent was killed, even a child that
// is stopped and cannot see the end of its stdin. Elsewhere a child leaves when
// its stdin ends.
func init() { childAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

package ctl

import (
	"syscall"
	"testing"

	"github.com/go-lockguard/guard/internal/redistest"
)

func TestRunDoesNotOutliveAKilledGuardctl(t *testing.T) {
	s := redistest.Start(t)
	dir := t.TempDir()
	c, errs := program(t, s.Addr, "run", "k", "--", "sh", "-c",
		"cd "+dir+"; echo $$ > leader; while :; do sleep 0.01; done")
	leader := pidIn(t, dir, "leader")
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	eventually(t, "the command is gone; "+errs.String(), func() bool { return syscall.Kill(leader, 0) != nil })
}

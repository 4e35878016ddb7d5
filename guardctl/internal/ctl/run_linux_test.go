package ctl

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
)

func TestRunDoesNotOutliveAKilledGuardctl(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dir := t.TempDir()
	c, errs := program(t, s.Addr, "run", "k", "--", "sh", "-c",
		"cd "+dir+"; echo $$ > leader; while :; do sleep 0.01; done")
	leader := pidIn(t, dir, "leader")
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	testguard.Eventually(t, "the command is gone; "+errs.String(),
		func() bool { return syscall.Kill(leader, 0) != nil })
}

// asInit lets guardctl adopt what its command has left, as process 1 of a
// container does.
const asInit = "GUARDCTL_TEST_AS_INIT"

var _ = adopt()

func adopt() error {
	if os.Getenv(asInit) == "" {
		return nil
	}
	adopts = true
	const setChildSubreaper = 36
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	return errno
}

// What the command has left is a zombie until guardctl takes its status.
func TestRunEndsWithItsGroupAsProcess1OfAContainer(t *testing.T) {
	t.Setenv(asInit, "1")
	s := redistest.Start(t)
	dir := t.TempDir()
	script := "cd " + dir + `
sh -c 'trap "sleep 0.2; exit" TERM; echo $$ > child; while :; do sleep 0.01; done' &
trap 'exit 5' TERM
echo $$ > leader
while :; do sleep 0.01; done`
	c, errs := program(t, s.Addr, "run", "--grace", "1h", "k", "--", "sh", "-c", script)
	pidIn(t, dir, "child")
	pidIn(t, dir, "leader")
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() {
		_ = c.Wait()
		ended <- c.ProcessState.ExitCode()
	}()
	testguard.Eventually(t, "guardctl has ended", func() bool { return len(ended) == 1 })
	if status := <-ended; status != 5 {
		t.Errorf("status %d, %s; want 5", status, errs)
	}
}

// A daemon that the command has started ends while the command runs.
func TestRunTakesTheStatusOfOrphansAsProcess1OfAContainer(t *testing.T) {
	t.Setenv(asInit, "1")
	s := redistest.Start(t)
	dir := t.TempDir()
	script := "cd " + dir + `
for i in 1 2 3; do (sh -c 'echo $$ > orphan'$i'; while ! test -e go; do sleep 0.01; done' &) ; done
trap 'exit 5' TERM; echo $$ > leader; while :; do sleep 0.01; done`
	c, errs := program(t, s.Addr, "run", "k", "--", "sh", "-c", script)
	leader, orphans := pidIn(t, dir, "leader"), []int{}
	for _, name := range []string{"orphan1", "orphan2", "orphan3"} {
		orphans = append(orphans, pidIn(t, dir, name))
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pid := range orphans {
		testguard.Eventually(t, "no zombie is left", func() bool { return syscall.Kill(pid, 0) != nil })
	}
	if err := syscall.Kill(leader, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _ = c.Wait(); c.ProcessState.ExitCode() != 5 {
		t.Errorf("%v, %s; want the command's 5", c.ProcessState, errs)
	}
}

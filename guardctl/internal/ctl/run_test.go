//go:build unix

package ctl

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
)

// runs runs guardctl run on a server, and returns its exit status, its output
// and its errors. It waits for a minute for a busy server, unless args say
// otherwise.
func runs(t *testing.T, addr string, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	all := append([]string{"guardctl", "--url", "redis://" + addr, "run", "--wait", "1m"}, args...)
	status = Run(t.Context(), all, strings.NewReader("input\n"), &o, &e)
	return status, o.String(), e.String()
}

func TestRunEndsWithTheStatusThatTheCallerExpects(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	hang(t, instance(t, redistest.Client(t, s.Addr), guard.WithName("other")), "held")
	locked := filepath.Join(t.TempDir(), "locked")
	if err := os.WriteFile(locked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		addr, args string
		status     int
		out, errs  string // of which they must have a part
	}{
		"success":        {s.Addr, "k -- sh -c echo+$GUARD_KEY", 0, "k\n", ""},
		"input":          {s.Addr, "k -- cat", 0, "input\n", ""},
		"a failure":      {s.Addr, "k -- sh -c exit+3", 3, "", ""},
		"a signal":       {s.Addr, "k -- sh -c kill+-9+$$", 137, "", ""},
		"a held key":     {s.Addr, "--wait 3s held -- echo no", 75, "", "held by"},
		"no command":     {s.Addr, "k -- no-such-command", 127, "", "no-such-command"},
		"a locked file":  {s.Addr, "k -- " + locked, 126, "", "permission denied"},
		"a directory":    {s.Addr, "k -- " + filepath.Dir(locked), 126, "", "is a directory"},
		"no store":       {"127.0.0.1:1", "--wait 10ms k -- echo no", 69, "", "unavailable"},
		"no arguments":   {s.Addr, "k", 1, "", "COMMAND"},
		"a bad TTL":      {s.Addr, "--ttl 1ms k -- echo no", 1, "", "TTL"},
		"a bad lifetime": {s.Addr, "--once 1us k -- echo no", 1, "", "1ms"},
		"no lifetime":    {s.Addr, "--once 0 k -- echo no", 1, "", "--once"},
		"a bad grace":    {s.Addr, "--grace -1s k -- echo no", 1, "", "--grace"},
	} {
		args := strings.Fields(row.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "+", " ")
		}
		status, out, errs := runs(t, row.addr, args...)
		if status != row.status || !strings.Contains(errs, row.errs) || errs == "" != (row.errs == "") ||
			status == 0 != (out != "") || row.out != out && row.out != "" {
			t.Errorf("%s: status %d, output %q, errors %q; want %+v", name, status, out, errs, row)
		}
	}
}

func TestRunGivesEachRunAHigherToken(t *testing.T) {
	s := redistest.Start(t)
	var last uint64
	for range 3 {
		_, out, errs := runs(t, s.Addr, "k", "--", "sh", "-c", "echo $GUARD_TOKEN")
		token, err := strconv.ParseUint(strings.TrimSpace(out), 10, 64)
		if err != nil || token <= last {
			t.Fatalf("token %q (%s), want above %d", out, errs, last)
		}
		last = token
	}
}

func TestRunOnceRecordsSuccessAndNothingElse(t *testing.T) {
	s := redistest.Start(t)
	once := func(script string) (int, string, string) {
		return runs(t, s.Addr, "--once", "1h", "report", "--", "sh", "-c", script)
	}
	if status, _, errs := once("exit 4"); status != 4 || errs != "" {
		t.Errorf("a failure: status %d, %q", status, errs)
	}
	if status, out, errs := once("echo done"); status != 0 || out != "done\n" || errs != "" {
		t.Errorf("after a failure: status %d, %q, %q; want a run", status, out, errs)
	}
	if status, out, errs := once("echo again"); status != 0 || out != "" || !strings.Contains(errs, "nothing was run") {
		t.Errorf("after success: status %d, %q, %q; want no run", status, out, errs)
	}
}

// The command ignores SIGTERM in a process of its own.
func TestRunEndsTheWholeGroupWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dir := t.TempDir()
	script := `cd ` + dir + `
sh -c 'trap "" TERM; echo $$ > stubborn; exec sleep 60' &
trap 'echo told > told; exit 5' TERM
echo $$ > leader
while :; do sleep 0.01; done`
	c, errs := program(t, s.Addr, "run", "--grace", "3s", "k", "--", "sh", "-c", script)
	stubborn := pidIn(t, dir, "stubborn")
	pidIn(t, dir, "leader")
	mustRun(t, s, "release", "--yes", "k")
	if _ = c.Wait(); c.ProcessState.ExitCode() != 5 || !strings.Contains(errs.String(), "the command was ended") ||
		strings.Contains(errs.String(), "<nil>") {
		t.Errorf("%v, %q; want status 5, and that it was ended", c.ProcessState, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "told")); err != nil {
		t.Error("the command got no SIGTERM:", err)
	}
	testguard.Eventually(t, "the command's process is gone", func() bool { return syscall.Kill(stubborn, 0) != nil })
}

// A clean end does not hide that another process may have run meanwhile.
func TestRunFailsIfTheLeaseIsLostThoughTheCommandEndsWith0(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dir := t.TempDir()
	c, errs := program(t, s.Addr, "run", "k", "--", "sh", "-c",
		"cd "+dir+"; trap 'exit 0' TERM; echo $$ > leader; while :; do sleep 0.01; done")
	pidIn(t, dir, "leader")
	mustRun(t, s, "release", "--yes", "k")
	if _ = c.Wait(); c.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, %s; want 1", c.ProcessState, errs)
	}
}

func TestRunKillsAtOnceWithoutGrace(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dir := t.TempDir()
	c, errs := program(t, s.Addr, "run", "--grace", "0", "k", "--", "sh", "-c",
		"cd "+dir+"; trap '' TERM; echo $$ > leader; while :; do sleep 0.01; done")
	pidIn(t, dir, "leader")
	mustRun(t, s, "release", "--yes", "k")
	if _ = c.Wait(); c.ProcessState.ExitCode() != 137 {
		t.Errorf("%v, %s; want 137", c.ProcessState, errs)
	}
}

func TestRunHandsItsOwnSIGTERMToTheCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, row := range map[string]struct {
		exit, once string
		status     int
		errs       string
	}{
		"a status of its own": {"7", "", 7, ""},
		"a clean end":         {"0", "", 0, ""},
		"a clean end of Once": {"0", "--once=1h", 1, "not recorded"},
	} {
		dir := t.TempDir()
		args := slices.DeleteFunc([]string{"run", row.once, "k", "--", "sh", "-c", "cd " + dir +
			"; trap 'exit " + row.exit + "' TERM; echo $$ > leader; while :; do sleep 0.01; done"},
			func(s string) bool { return s == "" })
		c, errs := program(t, s.Addr, args...)
		pidIn(t, dir, "leader")
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if _ = c.Wait(); c.ProcessState.ExitCode() != row.status || !strings.Contains(errs.String(), row.errs) {
			t.Errorf("%s: %v, %q; want the status %d", name, c.ProcessState, errs, row.status)
		}
		if text := mustRun(t, s, "show", "k"); !strings.Contains(text, "nobody") || strings.Contains(text, "result") {
			t.Errorf("%s: the key is not free, or has a record:\n%s", name, text)
		}
	}
}

// nohup, and the & of a shell script, start a program with the signal ignored.
// A later signal that is passed on comes after it.
func TestRunGoesOnAtASignalThatItsParentHasItIgnore(t *testing.T) {
	s := redistest.Start(t)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		dir := t.TempDir()
		signal.Ignore(sig)
		c, errs := program(t, s.Addr, "run", "k", "--", "sh", "-c",
			"cd "+dir+"; trap 'exit 4' USR1; echo $$ > leader; while :; do sleep 0.01; done")
		signal.Reset(sig)
		pidIn(t, dir, "leader")
		if err := errors.Join(c.Process.Signal(sig), c.Process.Signal(syscall.SIGUSR1)); err != nil {
			t.Fatal(err)
		}
		if _ = c.Wait(); c.ProcessState.ExitCode() != 4 {
			t.Errorf("%v: %v, %s; want the command's 4", sig, c.ProcessState, errs)
		}
	}
}

// The command and what it has started write down what they get. The group ends
// by itself when it is told to, and only then.
func TestRunPassesItsSignalsToTheWholeGroup(t *testing.T) {
	t.Parallel()
	handles(t, syscall.SIGHUP, syscall.SIGINT)
	s := redistest.Start(t)
	for _, row := range []struct {
		names  string // in this order
		status int
	}{
		{"USR1 USR2 WINCH ALRM TERM", 3}, {"USR1 QUIT", 3}, {"HUP", 3}, {"INT", 3}, {"ABRT", 3}, {"TERM INT QUIT", 3},
	} {
		dir := t.TempDir()
		script := `cd ` + dir + `
note() { for s in USR1 USR2 WINCH ALRM TERM QUIT HUP INT ABRT; do trap "echo $s >> $1.got" $s; done; }
(note child; trap - INT; note child; sh -c 'echo $PPID' > child; until test -e end; do sleep 0.01; done) &
note leader; echo $$ > leader; until test -e end; do sleep 0.01; done; wait; exit 3`
		c, errs := program(t, s.Addr, "run", "--grace", "1h", "k", "--", "bash", "-c", script)
		pidIn(t, dir, "child")
		pidIn(t, dir, "leader")
		var got string
		for name := range strings.FieldsSeq(row.names) {
			if err := c.Process.Signal(unix[name]); err != nil {
				t.Fatal(err)
			}
			got += name + "\n"
			for _, who := range []string{"leader", "child"} {
				testguard.Eventually(t, who+" got "+got, func() bool {
					text, _ := os.ReadFile(filepath.Join(dir, who+".got"))
					return string(text) == got
				})
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _ = c.Wait(); c.ProcessState.ExitCode() != row.status {
			t.Errorf("%s: %v, %s; want the status %d", row.names, c.ProcessState, errs, row.status)
		}
	}
}

// handles lets the programs of t have signals that the test itself may have
// been started to ignore.
func handles(t *testing.T, all ...os.Signal) {
	t.Helper()
	c := make(chan os.Signal, 1)
	signal.Notify(c, all...)
	t.Cleanup(func() { signal.Stop(c) })
}

var unix = map[string]syscall.Signal{
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH, "ALRM": syscall.SIGALRM,
	"TERM": syscall.SIGTERM, "QUIT": syscall.SIGQUIT, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT,
	"ABRT": syscall.SIGABRT,
}

// Nobody runs beside what is left of the group: it is gone before the key is
// free.
func TestRunEndsAGroupThatIgnoresItsSignalWhenTheGraceIsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dir := t.TempDir()
	script := `cd ` + dir + `
sh -c 'trap "" QUIT TERM; echo $$ > stubborn; while :; do sleep 0.01; done' &
trap '' QUIT TERM; echo $$ > leader; while :; do sleep 0.01; done`
	c, errs := program(t, s.Addr, "run", "--grace", "100ms", "k", "--", "sh", "-c", script)
	stubborn := pidIn(t, dir, "stubborn")
	pidIn(t, dir, "leader")
	if err := c.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if _ = c.Wait(); c.ProcessState.ExitCode() != 137 || strings.Contains(errs.String(), "goroutine") {
		t.Errorf("%v, %s; want 137", c.ProcessState, errs)
	}
	testguard.Eventually(t, "its process is gone", func() bool { return syscall.Kill(stubborn, 0) != nil })
	if text := mustRun(t, s, "show", "k"); !strings.Contains(text, "nobody") {
		t.Errorf("the key is not free:\n%s", text)
	}
}

func TestRunEndsAtASignalWhileItWaitsForItsKey(t *testing.T) {
	t.Parallel()
	handles(t, syscall.SIGHUP)
	s := redistest.Start(t)
	g := instance(t, redistest.Client(t, s.Addr), guard.WithName("other"))
	hang(t, g, "held")
	for _, name := range []string{"TERM", "QUIT", "HUP"} {
		c, errs := program(t, s.Addr, "run", "--wait", "10m", "held", "--", "echo", "no")
		testguard.Eventually(t, "it waits", func() bool {
			state, err := g.Inspect(t.Context(), "held")
			return err == nil && state.Waiting == 1
		})
		if err := c.Process.Signal(unix[name]); err != nil {
			t.Fatal(err)
		}
		if _ = c.Wait(); c.ProcessState.ExitCode() != 1 || !strings.Contains(errs.String(), "told to end") {
			t.Errorf("%s: %v, %s; want 1", name, c.ProcessState, errs)
		}
	}
}

// Without the dashes, too, what follows the command is the command's.
func TestRunTakesNoFlagsOfItsCommand(t *testing.T) {
	s := redistest.Start(t)
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"k", "echo", "--wait", "1h", "-n", "--help", "", "-", " x "}, "--wait 1h -n --help  -  x \n"},
		{[]string{"--wait", "1s", "k", "--ttl=4s", "echo", "--ttl", "1"}, "--ttl 1\n"},
		{[]string{"k", "--ttl", "4s", "--", "echo", "--", "-a"}, "-- -a\n"},
		{[]string{"k", "echo", "--", "-a"}, "-- -a\n"},
		{[]string{"run", "echo", "run", "-x"}, "run -x\n"},
		{[]string{"--json", "k", "echo", "--json"}, "--json\n"},
	} {
		if status, out, errs := runs(t, s.Addr, row.args...); status != 0 || out != row.want {
			t.Errorf("%q: status %d, %q, %s; want %q", row.args, status, out, errs, row.want)
		}
	}
	if status, out, _ := runs(t, s.Addr, "--help"); status != 0 || !strings.Contains(out, "--grace") {
		t.Errorf("--help: %d, %q", status, out)
	}
}

func TestRunKeepsProcessesApart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dir := t.TempDir()
	script := "cd " + dir + "; mkdir inside || exit 9; n=$(cat n 2>/dev/null || echo 0); sleep 0.02; " +
		"echo $((n+1)) > n; rmdir inside"
	var all []*exec.Cmd
	for range 8 {
		c, _ := program(t, s.Addr, "run", "--wait", "1m", "k", "--", "sh", "-c", script)
		all = append(all, c)
	}
	for _, c := range all {
		if _ = c.Wait(); c.ProcessState.ExitCode() != 0 {
			t.Errorf("%v, want 0 (9: two inside)", c.ProcessState)
		}
	}
	if n, err := os.ReadFile(filepath.Join(dir, "n")); err != nil || strings.TrimSpace(string(n)) != "8" {
		t.Errorf("%q, %v; want 8", n, err)
	}
}

// program starts guardctl as a process of its own.
func program(t *testing.T, addr string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	var errs bytes.Buffer
	c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"--url", "redis://" + addr}, args...)...)
	c.Env = append(os.Environ(), asProgram+"=1")
	c.Stdout, c.Stderr, c.WaitDelay = io.Discard, &errs, time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, &errs
}

// pidIn returns the process id in a file of dir, when it is there.
func pidIn(t *testing.T, dir, name string) (pid int) {
	t.Helper()
	testguard.Eventually(t, name+" has written its pid", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	return pid
}

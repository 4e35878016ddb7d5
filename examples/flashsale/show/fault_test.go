//go:build unix

package show

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/internal/redistest"
)

// program is the whole program as a process, in mid-sale.
type program struct {
	cmd   *exec.Cmd
	pids  []int
	addrs []string

	stderr bytes.Buffer // read it when the process has ended
}

var sceneLine = regexp.MustCompile(`http://(\S+)  pid (\d+)`)

func startProgram(t *testing.T, redisAddr string, requests int) *program {
	t.Helper()
	return startProgramIn(t, t.TempDir(), redisAddr, requests)
}

// startProgramIn starts a program whose temporary files are in dir.
func startProgramIn(t *testing.T, dir, redisAddr string, requests int) *program {
	t.Helper()
	n := strconv.Itoa(requests)
	p := &program{cmd: exec.Command(os.Args[0],
		"-redis", redisAddr, "-requests", n, "-stock", n)}
	p.cmd.Stderr = &p.stderr
	p.cmd.Env = append(os.Environ(), mainEnv+"=1", "TMPDIR="+dir)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for len(p.pids) < defaultConfig().Instances && lines.Scan() {
		if m := sceneLine.FindStringSubmatch(lines.Text()); m != nil {
			pid, _ := strconv.Atoi(m[2])
			p.addrs, p.pids = append(p.addrs, m[1]), append(p.pids, pid)
		}
	}
	if len(p.pids) < defaultConfig().Instances {
		t.Fatalf("the program ended early: %v", p.cmd.Wait())
	}
	lines.Scan() // a line of progress: the sale goes on
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return p
}

// awaitChildrenGone waits until nobody listens at the instances' addresses. A
// zombie, which only init can bury, has gone.
func (p *program) awaitChildrenGone(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(p.addrs) > 0 && ctx.Err() == nil {
		p.addrs = slices.DeleteFunc(p.addrs, func(addr string) bool {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err == nil {
				conn.Close()
			}
			return err != nil && ctx.Err() == nil
		})
		shop.Pause(ctx, 10*time.Millisecond)
	}
	if len(p.addrs) > 0 {
		t.Errorf("instances still serve at %v", p.addrs)
		for _, pid := range p.pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func TestCtrlCLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := t.TempDir()
	p := startProgramIn(t, dir, server.Addr, 1_000_000)
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if code := p.cmd.ProcessState.ExitCode(); code != exitInterrupted ||
		strings.Contains(p.stderr.String(), errLeft.Error()) {
		t.Errorf("exit status %d, want %d: %s", code, exitInterrupted, p.stderr.String())
	}
	p.awaitChildrenGone(t)
	wantEmpty(t, server.Addr)
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
}

func TestCtrlCSaysWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := startProgram(t, server.Addr, 1_000_000)
	server.Kill()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if code := p.cmd.ProcessState.ExitCode(); code != exitInterrupted ||
		!strings.Contains(p.stderr.String(), "left in Redis") {
		t.Errorf("exit status %d, %s", code, p.stderr.String())
	}
	p.awaitChildrenGone(t)
}

func TestKilledParentLeavesNoChildBehind(t *testing.T) {
	t.Parallel()
	p := startProgram(t, redistest.Start(t).Addr, 1_000_000)
	if runtime.GOOS == "linux" { // one that cannot see the end of its stdin
		if err := syscall.Kill(p.pids[0], syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // killed, it says
	p.awaitChildrenGone(t)
}

func TestSaleThatNoInstanceSurvivesFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := startProgram(t, server.Addr, 3000)
	for _, pid := range p.pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	_ = p.cmd.Wait()
	if code := p.cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit status %d, want %d", code, exitFailed)
	}
	wantEmpty(t, server.Addr)
}

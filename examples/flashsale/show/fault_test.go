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

// openTestSale starts a small sale on a real server, to be ended with t.
func openTestSale(t *testing.T, change func(*config)) *sale {
	t.Helper()
	cfg := defaultConfig()
	cfg.redis = redistest.Start(t).Addr
	cfg.Requests, cfg.Stock, cfg.Buyers = 400, 100, 40
	change(&cfg)
	s, err := openSale(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
		wantEmpty(t, cfg.redis)
	})
	return s
}

// startStep has one instance take the lease, read the stock and ask for the
// price, and keeps the price back.
func startStep(t *testing.T, s *sale, order string, at *instance) (answered <-chan answer, givePrice func()) {
	t.Helper()
	asked, givePrice := s.hold(order)
	t.Cleanup(givePrice)
	c := make(chan answer, 1)
	go func() { c <- s.one(t.Context(), order, at) }()
	select {
	case <-asked:
	case a := <-c:
		t.Fatalf("answered before the price was asked: %+v", a)
	}
	return c, givePrice
}

func TestKilledHolderDelaysTheSaleByAtMostOneTTL(t *testing.T) {
	t.Parallel()
	for _, m := range []shop.Mode{shop.ModeLock, shop.ModeFence} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			s := openTestSale(t, func(c *config) { c.Mode = m })
			s.sell(t.Context(), 1, 50, s.fleet)
			victim := s.fleet[1]
			answered, _ := startStep(t, s, "51", victim)

			victim.kill()
			killed := time.Now()
			s.ledger.heard(<-answered)
			first := make(chan time.Duration, 1) // until the first sale after the kill
			s.buy(t.Context(), 52, s.cfg.Requests-51, inTurn(s.fleet), func(a answer) {
				s.ledger.heard(a)
				if a.Code == shop.CodeSold {
					select {
					case first <- a.at.Sub(killed):
					default:
					}
				}
			})

			res, err := s.result(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if faults := res.broken(); len(faults) > 0 {
				t.Errorf("broken: %v", faults)
			}
			if res.Sold != s.cfg.Stock {
				t.Errorf("%d sold of %d", res.Sold, s.cfg.Stock)
			}
			if res.Errors < 2 { // the holder's request, and those sent to the dead instance
				t.Errorf("%d errors, want those of the killed instance", res.Errors)
			}
			// The rest of the bound is for a slow machine: what is ruled out is
			// waiting for more than the lease.
			if pause := <-first; pause > s.cfg.TTL+2*time.Second {
				t.Errorf("nothing sold for %v after the kill, the TTL is %v", pause, s.cfg.TTL)
			}
		})
	}
}

func TestStoppedHolderFindsItsContextCancelled(t *testing.T) {
	t.Parallel()
	s := openTestSale(t, func(c *config) { c.Mode = shop.ModeFence })
	holder, others := s.fleet[0], s.fleet[1:]
	answered, _ := startStep(t, s, "1", holder)
	stopPastTTL(t, s, holder, others)

	late := <-answered // though its price never comes
	if late.Code != shop.CodeLockLost {
		t.Errorf("the stopped holder answered %d %s, want %s", late.status, late.Code, shop.CodeLockLost)
	}
	s.ledger.heard(late)
	wantRightStock(t, s, 2+40)
}

func TestLateFencedWriteIsRefused(t *testing.T) {
	t.Parallel()
	s := openTestSale(t, func(c *config) { c.Mode, c.Deaf = shop.ModeFence, true })
	holder, others := s.fleet[0], s.fleet[1:]
	answered, givePrice := startStep(t, s, "1", holder)
	stopPastTTL(t, s, holder, others)
	givePrice()

	late := <-answered
	if late.Code != shop.CodeLateWrite || late.Token == 0 || late.Token >= late.Newest {
		t.Errorf("the stopped holder answered %s, token %d, newest %d", late.Code, late.Token, late.Newest)
	}
	s.ledger.heard(late)
	res := wantRightStock(t, s, 2+40)
	if res.LateWrites != 1 {
		t.Errorf("%d late writes refused, want 1", res.LateWrites)
	}
	if res.LeasesLost == 0 { // deaf is the handler, not the guard
		t.Error("no lease lost, want that of the stopped holder")
	}
}

func TestLateWriteWithoutTokenLosesUpdates(t *testing.T) {
	t.Parallel()
	s := openTestSale(t, func(c *config) { c.Mode, c.Deaf = shop.ModeLock, true })
	holder, others := s.fleet[0], s.fleet[1:]
	answered, givePrice := startStep(t, s, "1", holder)
	sold := stopPastTTL(t, s, holder, others)
	givePrice()
	s.ledger.heard(<-answered)
	res, err := s.result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if res.LostUpdates != sold || len(res.broken()) == 0 {
		t.Errorf("%d lost updates, want %d; broken: %v", res.LostUpdates, sold, res.broken())
	}
}

// stopPastTTL stops holder until the others have served 40 requests, which they
// can only once its lease has expired. It returns how many items they sold.
func stopPastTTL(t *testing.T, s *sale, holder *instance, others []*instance) (sold int) {
	t.Helper()
	if err := holder.halt(); err != nil {
		t.Fatal(err)
	}
	s.sell(t.Context(), 2, 40, others)
	if sold = s.ledger.counts().Sold; sold == 0 {
		t.Fatalf("the others sold nothing: %v %s", s.ledger.counts().RefusedByReason, s.ledger.settle(nil).complaint)
	}
	if err := holder.resume(); err != nil {
		t.Fatal(err)
	}
	return sold
}

// wantRightStock sells the rest, from the request of that number on, and checks
// that every item was sold once.
func wantRightStock(t *testing.T, s *sale, from int) result {
	t.Helper()
	s.sell(t.Context(), from, s.cfg.Requests-from+1, s.fleet)
	res, err := s.result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if faults := res.broken(); len(faults) > 0 || res.Sold != s.cfg.Stock {
		t.Errorf("%d sold of %d, broken: %v", res.Sold, s.cfg.Stock, faults)
	}
	return res
}

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

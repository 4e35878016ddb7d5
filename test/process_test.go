//go:build unix

package guard_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

var schedule = flag.Duration("schedule", 4*time.Second,
	"how long the schedulers of TestTryDo_EachTickRunsOnceAcrossProcesses run")

// A process is this test binary once more, in one of the roles below. It prints
// its messages line by line.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

// TestProcess is no test. It is the work of another process.
func TestProcess(t *testing.T) {
	role := os.Getenv("GUARD_TEST_ROLE")
	if role == "" {
		t.Skip("for the tests below")
	}
	g := onRedis(t, os.Getenv("GUARD_TEST_REDIS"), guard.WithTTL(processTTL))
	switch role {
	case "leader":
		_ = g.Lead(t.Context(), key, lead)
	case "scheduler":
		schedulerProcess(t, g)
	case "payer":
		payerProcess(t, g)
	}
}

// processTTL is so long that a process which stands still for a second keeps
// its lease.
const processTTL = 4 * time.Second

func say(what string, args ...any) { sayOf(time.Now(), what, args...) }

func sayOf(at time.Time, what string, args ...any) {
	_, _ = fmt.Printf("say %d "+what+"\n", append([]any{at.UnixNano()}, args...)...)
}

func spawn(t *testing.T, role, addr string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcess$", "-schedule="+schedule.String(),
		fmt.Sprint("-test.short=", testing.Short()))
	cmd.Env = append(os.Environ(), append(env, "GUARD_TEST_ROLE="+role, "GUARD_TEST_REDIS="+addr)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, lines: make(chan string, 100_000)}
	read := make(chan struct{})
	go func() { // ends with the process
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			if what, said := strings.CutPrefix(s.Text(), "say "); said {
				p.lines <- what
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return p
}

// next waits until the process says what, and returns when it said so. The
// process may say before that it works.
func (p *process) next(what string) time.Time {
	p.t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			at, said := parse(line)
			switch {
			case !ok:
				p.t.Fatalf("the process ended before it said %q", what)
			case said == what:
				return at
			case said != "works":
				p.t.Fatalf("it said %q, want %q", said, what)
			}
		case <-limit:
			p.t.Fatalf("it does not say %q", what)
		}
	}
}

func parse(line string) (at time.Time, said string) {
	var nanos int64
	_, _ = fmt.Sscan(line, &nanos)
	_, said, _ = strings.Cut(line, " ")
	return time.Unix(0, nanos), said
}

// lead works as long as it may lead, and says so.
func lead(ctx context.Context) error {
	say("leads")
	l, _ := guard.LeaseFrom(ctx)
	work := time.NewTicker(10 * time.Millisecond)
	defer work.Stop()
	for {
		select {
		case <-ctx.Done():
			say("ended: %v", context.Cause(ctx))
			return nil
		case <-work.C:
			now := time.Now() // before the look: the process may be stopped right after it
			if l.Err() == nil {
				sayOf(now, "works")
			}
		}
	}
}

func TestLead_AKilledLeaderIsFollowed(t *testing.T) {
	t.Parallel() // it mostly waits
	addr := redistest.Start(t).Addr
	a := spawn(t, "leader", addr)
	a.next("leads")
	b := spawn(t, "leader", addr)
	a.next("works")
	time.Sleep(time.Second) // b waits, and a has renewed
	killed := time.Now()
	_ = a.cmd.Process.Kill()
	t.Logf("kill -9: the next leads after %v, with a TTL of %v", b.next("leads").Sub(killed), processTTL)
}

func TestLead_AStoppedLeaderHasEndedWhenItGoesOn(t *testing.T) {
	t.Parallel() // it mostly waits
	addr := redistest.Start(t).Addr
	a := spawn(t, "leader", addr)
	a.next("leads")
	b := spawn(t, "leader", addr)
	a.next("works")
	time.Sleep(time.Second)
	stopped := time.Now()
	_ = a.cmd.Process.Signal(syscall.SIGSTOP)
	elected := b.next("leads")
	t.Logf("SIGSTOP: the next leads after %v, with a TTL of %v", elected.Sub(stopped), processTTL)
	time.Sleep(time.Until(stopped.Add(processTTL + time.Second)))
	cont := time.Now()
	_ = a.cmd.Process.Signal(syscall.SIGCONT)
	for {
		line := <-a.lines
		at, said := parse(line)
		if strings.HasPrefix(said, "ended") {
			t.Logf("SIGCONT: its context has ended %v after", at.Sub(cont))
			if !strings.Contains(said, guard.ErrLeaseLost.Error()) {
				t.Errorf("%s, want a lost lease", said)
			}
			break
		}
		if at.After(elected) {
			t.Fatalf("it %s %v after another was elected", said, at.Sub(elected))
		}
	}
	_ = b.cmd.Process.Kill()
	a.next("leads") // again
}

// The schedulers start many jobs at each tick, on clocks that are 100 ms apart.
const (
	jobs, every, apart = 20, time.Second, 100 * time.Millisecond
	minHold            = 600 * time.Millisecond
	onTime             = (every - minHold) / 2 // what all jobs of a tick take on a machine that is well
)

func schedulerProcess(t *testing.T, g *guard.Guard) {
	t.Helper()
	var start, ahead int64
	_, _ = fmt.Sscan(os.Getenv("GUARD_TEST_CLOCK"), &start, &ahead)
	g = g.With(guard.WithMinHold(minHold))
	for tick := range int(*schedule / every) {
		ahead = -ahead // the two processes take turns to be first
		due := time.Unix(0, start-ahead).Add(time.Duration(tick) * every)
		time.Sleep(time.Until(due))
		for job := range jobs {
			asked := time.Now()
			_, err := g.TryDo(t.Context(), guard.Key("job", job), func(context.Context) error {
				sayOf(asked, "ran %d %d %d", tick, job, time.Now().UnixNano())
				return nil
			})
			if err != nil && (!errors.Is(err, guard.ErrUnavailable) || time.Since(asked) <= onTime) {
				say("error %d %d: %v", tick, job, err)
			}
		}
		if time.Since(due) > onTime {
			say("late %d", tick)
		}
	}
}

// A process that is late by more than the least hold runs a job again. On a
// busy machine that happens, so the test asks whether the hold lasted. A late
// run may hold the key still at the next tick, which then need not run.
func TestTryDo_EachTickRunsOnceAcrossProcesses(t *testing.T) {
	t.Parallel()
	type run struct{ asked, began time.Time }
	addr := redistest.Start(t).Addr
	start := time.Now().Add(2 * time.Second).UnixNano() // both processes are up then
	ran, late := map[[2]int][]run{}, map[int]bool{}     // late: by tick
	var ps [2]*process
	for i := range ps {
		ps[i] = spawn(t, "scheduler", addr, fmt.Sprintf("GUARD_TEST_CLOCK=%d %d", start, i*int(apart)))
	}
	for _, p := range ps {
		for line := range p.lines {
			at, said := parse(line)
			var id [2]int
			var began int64
			if _, err := fmt.Sscanf(said, "late %d", &id[0]); err == nil {
				late[id[0]], late[id[0]+1] = true, true
				continue
			}
			if _, err := fmt.Sscanf(said, "ran %d %d %d", &id[0], &id[1], &began); err != nil {
				t.Errorf("it said %q", said)
				continue
			}
			ran[id] = append(ran[id], run{at, time.Unix(0, began)})
		}
	}
	ticks, again := int(*schedule/every), 0
	for tick := range ticks {
		for job := range jobs {
			runs := ran[[2]int{tick, job}]
			slices.SortFunc(runs, func(a, b run) int { return a.began.Compare(b.began) })
			if len(runs) == 0 && !late[tick] {
				t.Errorf("tick %d of job %d did not run", tick, job)
			}
			for i := 1; i < len(runs); i++ {
				again++
				if held := runs[i].began.Sub(runs[i-1].asked); held < minHold {
					t.Errorf("tick %d of job %d ran again after %v, want it held for %v", tick, job, held, minHold)
				}
			}
		}
	}
	t.Logf("%d ticks of %d jobs; %d ran again by a process that was late", ticks, jobs, again)
}

//go:build unix

package guard_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
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

const processTTL = 2 * time.Second

func say(what string, args ...any) { sayOf(time.Now(), what, args...) }

func sayOf(at time.Time, what string, args ...any) {
	_, _ = fmt.Printf("say %d "+what+"\n", append([]any{at.UnixNano()}, args...)...)
}

func spawn(t *testing.T, role, addr string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcess$", "-schedule="+schedule.String())
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
	limit := time.After(20 * time.Second)
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

// slow is the time that a busy machine may add to an expected time.
const slow = 2 * time.Second

func TestLead_AKilledLeaderIsFollowedWithinTheTTL(t *testing.T) {
	t.Parallel() // it mostly waits
	addr := redistest.Start(t).Addr
	a := spawn(t, "leader", addr)
	a.next("leads")
	b := spawn(t, "leader", addr)
	a.next("works")
	time.Sleep(time.Second) // b waits, and a has renewed
	killed := time.Now()
	_ = a.cmd.Process.Kill()
	took := b.next("leads").Sub(killed)
	t.Logf("kill -9: the next leads after %v, with a TTL of %v", took, processTTL)
	if took > processTTL+slow {
		t.Errorf("the next leads after %v", took)
	}
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
			if !strings.Contains(said, guard.ErrLeaseLost.Error()) || at.Sub(cont) > slow {
				t.Errorf("%s, %v after it went on", said, at.Sub(cont))
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
)

func schedulerProcess(t *testing.T, g *guard.Guard) {
	t.Helper()
	var start, ahead int64
	_, _ = fmt.Sscan(os.Getenv("GUARD_TEST_CLOCK"), &start, &ahead)
	g = g.With(guard.WithMinHold(minHold))
	for tick := range int(*schedule / every) {
		ahead = -ahead // the two processes take turns to be first
		time.Sleep(time.Until(time.Unix(0, start-ahead).Add(time.Duration(tick) * every)))
		for job := range jobs {
			_, err := g.TryDo(t.Context(), guard.Key("job", job), func(context.Context) error {
				say("ran %d %d", tick, job)
				return nil
			})
			if err != nil {
				say("error: %v", err)
			}
		}
	}
}

func TestTryDo_EachTickRunsOnceAcrossProcesses(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	start := time.Now().Add(2 * time.Second).UnixNano() // both processes are up then
	ran := map[string]int{}
	by := [2]int{}
	var ps [2]*process
	for i := range ps {
		ps[i] = spawn(t, "scheduler", addr, fmt.Sprintf("GUARD_TEST_CLOCK=%d %d", start, i*int(apart)))
	}
	for i, p := range ps {
		for line := range p.lines {
			_, said := parse(line)
			ran[said]++
			by[i]++
		}
	}
	ticks := int(*schedule / every)
	t.Logf("%d ticks of %d jobs, each once: %d runs in one process, %d in the other", ticks, jobs, by[0], by[1])
	for tick := range ticks {
		for job := range jobs {
			if n := ran[fmt.Sprintf("ran %d %d", tick, job)]; n != 1 {
				t.Errorf("tick %d of job %d ran %d times", tick, job, n)
			}
		}
	}
	if len(ran) != ticks*jobs {
		t.Errorf("said %d things, want %d: %v", len(ran), ticks*jobs, ran)
	}
}

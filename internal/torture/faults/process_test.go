package faults

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Processes that are stopped or killed. Each is this test binary once more, in a role; what it says comes line by line.

const (
	roleEnv    = "FAULTS_ROLE"
	addrEnv    = "FAULTS_REDIS"
	processTTL = 2 * time.Second
)

type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func spawn(t *testing.T, role, addr string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, addrEnv+"="+addr)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, lines: make(chan string, 10_000)}
	read := make(chan struct{})
	go func() { // ends with the process
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return p
}

// says waits until the process says something that begins so.
func (p *process) says(what string) string {
	p.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the process ended before it said %q", what)
			}
			if strings.HasPrefix(line, what) {
				return line
			}
		case <-limit:
			p.t.Fatalf("the process does not say %q", what)
		}
	}
}

// stop freezes the process, and returns when it is frozen.
func (p *process) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	eventually(p.t, "the process is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			p.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "T")
	})
}

// play is what the process of a role does; it returns its exit code.
func play(role string) int {
	opts := []guard.Option{guard.WithLogger(slog.New(slog.DiscardHandler))}
	switch role {
	case "writer", "service":
		opts = append(opts, guard.WithTTL(processTTL), guard.WithFencing())
	case "taker", "waiter":
		opts = append(opts, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
	default:
		return playPeer(role, os.Getenv(addrEnv))
	}
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(addrEnv)})
	g, err := guard.New(redislocker.New(rdb), opts...)
	if err != nil {
		return 1
	}
	ctx := context.Background()
	terminated, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	switch role {
	case "writer": // writes, as long as its context lives; in the end once more, as if it had not looked
		l, err := g.Acquire(ctx, key)
		if err != nil {
			return 1
		}
		token, _ := l.FencingToken(ctx)
		fmt.Println("holds")
		for l.Context().Err() == nil {
			fmt.Println("works")
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Println("ended", context.Cause(l.Context()))
		accepted, err := write(ctx, rdb, token)
		fmt.Println("wrote", accepted, err)
	case "taker":
		playTaker(ctx, g)
	case "waiter": // until it is killed
		_, err = g.Acquire(ctx, key)
		fmt.Println("has", err)
	case "service": // holds keys for work that takes a moment, and shuts down when it is told
		for i := range 3 {
			go func() { // ends with the process
				_ = g.Do(ctx, fmt.Sprint(key, i), func(ctx context.Context) error {
					fmt.Println("holds")
					<-terminated.Done()
					time.Sleep(100 * time.Millisecond)
					return ctx.Err()
				})
			}()
		}
		<-terminated.Done()
		err := g.Close(ctx)
		fmt.Println("closed", err)
	}
	return 0
}

// guarded is a resource that looks at tokens: it takes a write only with one that is as high as any before.
var guarded = redis.NewScript(`
if tonumber(ARGV[1]) < tonumber(redis.call("get", KEYS[1]) or 0) then return 0 end
redis.call("set", KEYS[1], ARGV[1], "ex", 60)
return 1`)

func write(ctx context.Context, rdb *redis.Client, token uint64) (accepted bool, err error) {
	n, err := guarded.Run(ctx, rdb, []string{"resource"}, token).Int()
	return n == 1, err
}

func TestFault11AStoppedProcessIsToldAndItsLateWriteRefused(t *testing.T) {
	begin(t)
	s := serve(t)
	rdb := redistest.Client(t, s.Addr)
	a := spawn(t, "writer", s.Addr)
	a.says("holds")
	a.says("works")
	a.stop()
	b := newGuard(t, rdb, guard.WithTTL(long), guard.WithFencing(), guard.WithMaxWait(long))
	l := acquire(t, b, key) // when the key of the stopped process has ended
	if accepted, err := write(t.Context(), rdb, token(t, l)); err != nil || !accepted {
		t.Fatalf("the second holder's write: %v, %v", accepted, err)
	}
	for len(a.lines) > 0 {
		<-a.lines // said before it was stopped
	}
	_ = a.cmd.Process.Signal(syscall.SIGCONT)
	late := 0
	for line := range a.lines {
		if line == "works" {
			late++
			continue
		}
		if !strings.HasPrefix(line, "ended "+guard.ErrLeaseLost.Error()) {
			t.Errorf("it said %q, want that the lease was lost", line)
		}
		break
	}
	if late > 1 { // the loop may have been past its look
		t.Errorf("it worked %d times after it went on", late)
	}
	if said := a.says("wrote"); said != "wrote false <nil>" {
		t.Errorf("it %s: a late write was taken", said)
	}
	mustRelease(t, l)
	keeps(t, "its context has ended when it goes on; a write with its token is refused by the resource")
}

func TestFault36AKilledProcessFreesItsKeysWithinTheTTL(t *testing.T) {
	begin(t)
	s := serve(t)
	g := on(t, s.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
	a := spawn(t, "writer", s.Addr)
	a.says("holds")
	start := time.Now()
	_ = a.cmd.Process.Kill()
	mustRelease(t, acquire(t, g, key))
	d := took(t, "the key of a killed process", start, processTTL+slow)

	b := spawn(t, "service", s.Addr)
	for range 3 {
		b.says("holds")
	}
	start = time.Now()
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	if said := b.says("closed"); said != "closed <nil>" {
		t.Errorf("it %s", said)
	}
	took(t, "the shutdown", start, 100*time.Millisecond+slow)
	if left := redistest.Client(t, s.Addr).Keys(t.Context(), "guard:{k?}").Val(); len(left) > 0 {
		t.Errorf("left after SIGTERM and Close: %v", left)
	}
	keeps(t, "kill -9: free after %v (TTL %v); SIGTERM and `Close`: all keys released when the functions had ended", d, processTTL)
}

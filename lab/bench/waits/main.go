// Waits lets one process hold many keys while another waits for each. It
// measures the cost at rest, and the time until a released key is taken. It
// also measures the time until all keys are taken after the holder is killed.
//
//	go run ./lab/bench/waits -keys 10000
//	go run ./lab/bench/waits -keys 4000 -settle 2s -cuts 20
//
// It starts its own redis-server. Figures are reported, not judged.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

const (
	roleEnv   = "WAITS_ROLE" // of a process that this program has started
	roleHold  = "hold"
	roleWaits = "wait"
	jobEnv    = "WAITS_JOB" // its job, as JSON
)

// job holds the values of the flags.
type job struct {
	Addr    string
	Keys    int
	TTL     time.Duration
	settle  time.Duration
	count   time.Duration
	release int
	cuts    int
}

func main() {
	var err error
	switch os.Getenv(roleEnv) {
	case roleHold:
		err = holdMain(os.Stdin, os.Stdout)
	case roleWaits:
		err = waitMain(os.Stdout)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "waits: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (j job, err error) {
	fs := flag.NewFlagSet("waits", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.IntVar(&j.Keys, "keys", 10_000, "how many keys are held, and waited for")
	fs.DurationVar(&j.TTL, "ttl", 10*time.Second, "their TTL")
	fs.DurationVar(&j.settle, "settle", 20*time.Second, "how long all wait before anything is counted")
	fs.DurationVar(&j.count, "for", 20*time.Second, "how long commands are counted")
	fs.IntVar(&j.release, "release", 200, "how many of the keys are released")
	fs.IntVar(&j.cuts, "cuts", 0, "only: how often all keys are released while the subscriptions break")
	return j, fs.Parse(args)
}

// command does one run and reports it.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	j, err := parse(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "waits")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	lab := &redisproc.Lab{Dir: dir}
	defer lab.Close()
	server, err := lab.Start()
	if err != nil {
		return err
	}
	j.Addr = server.Addr
	if j.cuts > 0 {
		return j.cutting(ctx, stdout)
	}
	holder, err := j.child(ctx, roleHold)
	if err != nil {
		return err
	}
	if err := holder.read(1, nil); err != nil { // it has all of them
		return err
	}
	waiter, err := j.child(ctx, roleWaits)
	if err != nil {
		return err
	}
	if err := j.rest(ctx, holder, waiter, stdout); err != nil {
		return err
	}
	if err := j.handOver(holder, waiter, stdout); err != nil {
		return err
	}
	return j.takeOver(holder, waiter, stdout)
}

// rest reports the cost while all wait.
func (j *job) rest(ctx context.Context, holder, waiter *child, out io.Writer) error {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	defer func() { _ = rdb.Close() }()
	time.Sleep(j.settle)
	before, used, err := usage(ctx, rdb, holder, waiter)
	if err != nil {
		return err
	}
	time.Sleep(j.count)
	after, usedUp, err := usage(ctx, rdb, holder, waiter)
	if err != nil {
		return err
	}
	cpu := func(i int) float64 { return 100 * (usedUp[i] - used[i]) / j.count.Seconds() }
	fmt.Fprintf(out, "%d keys, held and waited for: %.0f commands/s; CPU holder %.0f %%, waiter %.0f %%, "+
		"Redis %.0f %%\n",
		j.Keys, (after-before)/j.count.Seconds(), cpu(1), cpu(2), cpu(0))
	return nil
}

// handOver reports the time until a released key is taken.
func (j *job) handOver(holder, waiter *child, out io.Writer) error {
	if j.release == 0 {
		return nil
	}
	fmt.Fprintln(holder.in, j.release)
	released, taken := map[int]int64{}, map[int]int64{}
	if err := errors.Join(holder.read(j.release, released), waiter.read(j.release, taken)); err != nil {
		return err
	}
	var took []time.Duration
	for key, at := range taken {
		took = append(took, time.Duration(at-released[key]))
	}
	fmt.Fprintf(out, "released, until the waiter's function runs: %s\n", summary(took))
	return nil
}

// takeOver kills the holder, and reports the time until its keys are taken.
func (j *job) takeOver(holder, waiter *child, out io.Writer) error {
	killed := time.Now()
	if err := holder.Process.Kill(); err != nil {
		return err
	}
	taken := map[int]int64{}
	if err := waiter.read(j.Keys-j.release, taken); err != nil {
		return err
	}
	var took []time.Duration
	for _, at := range taken {
		took = append(took, time.Duration(at-killed.UnixNano()))
	}
	fmt.Fprintf(out, "holder killed, until the waiter's function runs: %s; the TTL is %v\n", summary(took), j.TTL)
	return nil
}

func summary(took []time.Duration) string {
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("median %v, 99 %% %v, most %v of %d", at(0.5), at(0.99), at(1), len(took))
}

// child is this program in another role. It is killed when the run ends.
type child struct {
	*exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
}

func (j *job) child(ctx context.Context, role string) (*child, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	c := &child{Cmd: exec.CommandContext(ctx, os.Args[0])} //nolint:gosec // this program itself
	c.Env = append(os.Environ(), roleEnv+"="+role, jobEnv+"="+string(text))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(out)
	return c, c.Start()
}

// read reads n lines of a child, each a key and a time. If times is not nil the
// times go there.
func (c *child) read(n int, times map[int]int64) error {
	for range n {
		if !c.lines.Scan() {
			return fmt.Errorf("a process ended too early: %w", errors.Join(c.lines.Err(), io.ErrUnexpectedEOF))
		}
		var key int
		var at int64
		if times == nil {
			continue
		}
		if _, err := fmt.Sscan(c.lines.Text(), &key, &at); err != nil {
			return err
		}
		times[key] = at
	}
	return nil
}

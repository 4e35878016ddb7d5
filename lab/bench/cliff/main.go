// Cliff holds many leases in one process and counts the leases that are lost.
// Its flags add busy processes or goroutines. So it shows the load at which
// leases begin to get lost.
//
//	go run ./lab/bench/cliff -leases 26000
//	go run ./lab/bench/cliff -leases 5000 -busy 6 -runs 7
//	go run ./lab/bench/cliff -leases 1000 -ttl 10s -procs 1 -spin 8
//
// It starts its own redis-server. Figures are reported, not judged.
package main

import (
	"bufio"
	"cmp"
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
	"strconv"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

const (
	roleEnv  = "CLIFF_ROLE" // of a process that this program has started
	roleHold = "hold"
	roleBusy = "busy"
	jobEnv   = "CLIFF_JOB" // the job of a holder, as JSON
)

// job holds the values of the flags.
type job struct {
	Addr   string
	Leases int
	TTL    time.Duration
	For    time.Duration
	Spin   int // goroutines of the holder that never rest
	busy   int // processes beside it that never rest
	procs  int
	runs   int
}

func main() {
	var err error
	switch os.Getenv(roleEnv) {
	case roleHold:
		err = holdMain(os.Stdout)
	case roleBusy:
		spin() // until it is killed
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "cliff: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (j job, err error) {
	fs := flag.NewFlagSet("cliff", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.IntVar(&j.Leases, "leases", 5000, "how many leases the process holds")
	fs.DurationVar(&j.TTL, "ttl", time.Second, "their TTL")
	fs.DurationVar(&j.For, "for", 10*time.Second, "how long they are held")
	fs.IntVar(&j.busy, "busy", 0, "how many other processes use all the processor they get")
	fs.IntVar(&j.Spin, "spin", 0, "how many goroutines of the holder do")
	fs.IntVar(&j.procs, "procs", 0, "GOMAXPROCS of the holder; 0: as it comes")
	fs.IntVar(&j.runs, "runs", 1, "how often all of this is done")
	return j, fs.Parse(args)
}

// command does all runs and reports them.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	j, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cliff")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	lab := &redisproc.Lab{Dir: dir}
	defer lab.Close()
	var lost []float64
	for n := range j.runs {
		server, err := lab.Start()
		if err != nil {
			return err
		}
		j.Addr = server.Addr
		r, err := j.run(ctx)
		server.Kill()
		if err != nil {
			return err
		}
		share := 100 * float64(r.Lost) / float64(j.Leases)
		lost = append(lost, share)
		first := "none"
		if r.Lost > 0 {
			first = r.First.Round(time.Millisecond).String()
		}
		fmt.Fprintf(stdout, "run %d: %d of %d leases lost (%.1f %%), the first after: %s; holder's CPU %.0f %%\n",
			n+1, r.Lost, j.Leases, share, first, r.CPU)
	}
	slices.Sort(lost)
	fmt.Fprintf(stdout, "%d x %v beside %d busy processes, %d runs: median %.1f %% lost, worst %.1f %%\n",
		j.Leases, j.TTL, j.busy, j.runs, lost[len(lost)/2], lost[len(lost)-1])
	return nil
}

// run lets a process hold the leases. The busy processes start when it has all
// leases.
func (j *job) run(ctx context.Context) (r result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	text, err := json.Marshal(j)
	if err != nil {
		return r, err
	}
	holder := j.child(ctx, roleHold, jobEnv+"="+string(text))
	if j.procs > 0 {
		holder.Env = append(holder.Env, "GOMAXPROCS="+strconv.Itoa(j.procs))
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := holder.Start(); err != nil {
		return r, err
	}
	lines := bufio.NewScanner(out)
	if lines.Scan() { // it has all of them
		busy := make([]*exec.Cmd, j.busy)
		for i := range busy {
			busy[i] = j.child(ctx, roleBusy)
			if err := busy[i].Start(); err != nil {
				return r, err
			}
		}
		defer func() {
			cancel()
			for _, b := range busy {
				_ = b.Wait()
			}
		}()
	}
	if lines.Scan() {
		err = json.Unmarshal(lines.Bytes(), &r)
	}
	return r, cmp.Or(holder.Wait(), lines.Err(), err)
}

// child returns this program in another role. It is killed when ctx ends.
func (j *job) child(ctx context.Context, role string, env ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // this program itself
	c.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	c.Stderr = os.Stderr
	return c
}

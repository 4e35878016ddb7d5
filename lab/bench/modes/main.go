// Modes measures guard's modes beside its exclusive leases: readers, permits,
// several keys at once, and calls while the server gives no answer.
//
//	go run ./lab/bench/modes -rounds 3
//	go run ./lab/bench/modes -only trips,carts
//
// It starts its own redis-server. Figures are reported, not judged. The only
// exception is that more permits at one instant than there are is an error.
package main

import (
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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

// jobEnv marks a process that this program has started, and has its job.
const jobEnv = "MODES_JOB"

func main() {
	var err error
	if text := os.Getenv(jobEnv); text != "" {
		err = childMain(text, os.Stdin, os.Stdout)
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "modes: %v\n", err)
		os.Exit(1)
	}
}

// bench is one run of the program.
type bench struct {
	ctx    context.Context
	lab    *redisproc.Lab
	out    io.Writer
	rounds int
	length time.Duration
}

var parts = []struct {
	name    string
	measure func(*bench) error
}{
	{"crowds", (*bench).crowds},
	{"trips", (*bench).trips},
	{"carts", (*bench).carts},
	{"outage", (*bench).outage},
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("modes", flag.ContinueOnError)
	fs.SetOutput(stderr)
	only := fs.String("only", "", "parts to run, as a `list`: crowds,trips,carts,outage")
	b := &bench{ctx: ctx, out: stdout}
	fs.IntVar(&b.rounds, "rounds", 3, "how often crowds and carts are measured")
	fs.DurationVar(&b.length, "for", 3*time.Second, "how long each of them takes")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "modes")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b.lab = &redisproc.Lab{Dir: dir}
	defer b.lab.Close()
	for _, p := range parts {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), p.name) {
			continue
		}
		if err := p.measure(b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// processes does one job in several processes. They begin together.
func (b *bench) processes(n int, j job) (all []result, err error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	all = make([]result, n)
	errs := make([]error, n)
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		done.Go(func() { errs[i] = b.child(string(text), &ready, &all[i]) })
	}
	done.Wait()
	return all, errors.Join(errs...)
}

// child runs one process. It writes a byte for the start when all are ready.
func (b *bench) child(text string, ready *sync.WaitGroup, r *result) (err error) {
	once := sync.OnceFunc(ready.Done)
	defer once()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(b.ctx, self) //nolint:gosec // it is this program
	cmd.Env, cmd.Stderr = append(os.Environ(), jobEnv+"="+text), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	answers := json.NewDecoder(out)
	var warm bool
	err = answers.Decode(&warm)
	once()
	ready.Wait()
	if _, e := in.Write([]byte{'\n'}); e != nil {
		err = errors.Join(err, e)
	}
	return errors.Join(err, answers.Decode(r), cmd.Wait())
}

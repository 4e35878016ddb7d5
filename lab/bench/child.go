package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/lab/bench/internal/host"
)

// Every measurement runs in processes of its own. This program starts them by
// starting itself. A child reads from stdin its job and, when all children are
// ready, the time to begin. It writes to stdout an empty note when it is ready,
// and then its result. A child ends when its stdin ends.

// childEnv marks a process as a child.
const childEnv = "GUARD_BENCH_CHILD"

type (
	readyNote struct{ Failure string }
	startNote struct{ Start time.Time }
	endNote   struct {
		Result  result
		Failure string
	}
)

// childMain does the job that it reads from in.
func childMain(in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of the terminal; the parent decides
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from, to := gob.NewDecoder(in), gob.NewEncoder(out)
	var j job
	if err := from.Decode(&j); err != nil {
		return fmt.Errorf("no job: %w", err)
	}
	w, closeAll, err := newWorker(ctx, j)
	if err != nil {
		return to.Encode(readyNote{err.Error()})
	}
	defer closeAll()
	measure := kinds[j.Kind](w)
	if err := to.Encode(readyNote{}); err != nil {
		return err
	}
	var begin startNote
	if err := from.Decode(&begin); err != nil {
		return err
	}
	go func() { // ends with stdin, that is, with this process or its parent
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	res, err := measure(ctx, begin.Start)
	return to.Encode(endNote{res, text(err)})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// child is a working process as the parent sees it.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	to    *gob.Encoder
	from  *gob.Decoder
	log   bytes.Buffer // stderr; read after the process has ended
}

func startChild(ctx context.Context, j job) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if j.Program != "" {
		program = j.Program
	}
	c := &child{cmd: exec.CommandContext(ctx, program)} //nolint:gosec // it is this program, or one that the user named
	c.cmd.Env = append(os.Environ(), childEnv+"=1")
	c.cmd.Stderr = &c.log
	host.DieWithParent(c.cmd)
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.to, c.from = gob.NewEncoder(c.stdin), gob.NewDecoder(stdout)
	return c, c.to.Encode(j)
}

func (c *child) awaitReady() error {
	var note readyNote
	if err := c.from.Decode(&note); err != nil {
		return err
	}
	if note.Failure != "" {
		return errors.New(note.Failure)
	}
	return nil
}

func (c *child) awaitEnd() (result, error) {
	var note endNote
	if err := c.from.Decode(&note); err != nil {
		return note.Result, err
	}
	if note.Failure != "" {
		return note.Result, errors.New(note.Failure)
	}
	return note.Result, nil
}

// end ends the process and returns its exit error.
func (c *child) end() error {
	_ = c.stdin.Close()
	return c.cmd.Wait()
}

// patience is the max time that a measurement may take beyond its duration. It
// allows for libraries that wait on, and for a busy machine.
const patience = 90 * time.Second

// together runs jobs, each in a process, from the same instant on. If beside is
// not nil it runs meanwhile, until the jobs are done.
func together(ctx context.Context, jobs []job, beside func(ctx context.Context)) (results []result, err error) {
	ctx, cancel := context.WithTimeout(ctx, jobs[0].Duration+patience)
	defer cancel()
	var children []*child
	defer func() {
		if err != nil {
			cancel() // kills the children that still measure
		}
		for i, c := range children {
			died := c.end()
			if err == nil && died != nil && !jobs[i].Dies { // after its result: the race detector may report at the end
				results, err = nil, fmt.Errorf("process %d: %w", i, died)
			}
			if log := strings.TrimSpace(c.log.String()); err != nil && log != "" {
				err = fmt.Errorf("%w\nprocess %d: %s", err, i, log)
			}
		}
	}()
	for _, j := range jobs {
		c, err := startChild(ctx, j)
		if err != nil {
			return nil, err
		}
		children = append(children, c)
		if j.Kind == "holder" { // the others must find the key held
			if err := c.awaitReady(); err != nil {
				return nil, err
			}
		}
	}
	for i, c := range children {
		if jobs[i].Kind == "holder" {
			continue
		}
		if err := c.awaitReady(); err != nil {
			return nil, fmt.Errorf("process %d did not start: %w", i, err)
		}
	}
	begin := startNote{time.Now().Add(started)}
	for _, c := range children {
		if err := c.to.Encode(begin); err != nil {
			return nil, err
		}
	}
	if beside != nil {
		var done sync.WaitGroup
		besideCtx, stop := context.WithCancel(ctx)
		done.Go(func() { beside(besideCtx) })
		defer done.Wait()
		defer stop()
	}
	for i, c := range children {
		r, err := c.awaitEnd()
		if err != nil && !jobs[i].Dies {
			return nil, fmt.Errorf("process %d: %w", i, err)
		}
		results = append(results, r)
	}
	return results, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/lab/internal/childproc"
)

// Every measurement runs in processes of its own. A child says that it is
// ready, receives the time to begin, and says its result.

// note is what a child says.
type note struct {
	Result  result
	Failure string
}

// childMain is the main function of a child.
func childMain(parent *childproc.Parent, j job) error {
	w, closeAll, err := newWorker(context.Background(), j)
	if err != nil {
		return parent.Say(note{Failure: err.Error()})
	}
	defer closeAll()
	measure := kinds[j.Kind](w)
	if err := parent.Say(note{}); err != nil {
		return err
	}
	var begin time.Time
	if err := parent.Receive(&begin); err != nil {
		return err
	}
	n := note{}
	if n.Result, err = measure(parent.Context(), begin); err != nil {
		n.Failure = err.Error()
	}
	return parent.Say(n)
}

type child = childproc.Child[note]

// await waits for the next note of c.
func await(c *child) (result, error) {
	n, ok := <-c.Said
	switch {
	case !ok:
		return n.Result, errors.New("it has ended")
	case n.Failure != "":
		return n.Result, errors.New(n.Failure)
	}
	return n.Result, nil
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
			c.Leave()
			<-c.Gone
			if err == nil && !c.State.Success() && !jobs[i].Dies { // the race detector may report at the end
				results, err = nil, fmt.Errorf("process %d: %v", i, c.State)
			}
			if log := c.LastWords(); err != nil && log != "" {
				err = fmt.Errorf("%w\nprocess %d: %s", err, i, log)
			}
		}
	}()
	for _, j := range jobs {
		c, err := childproc.Start[note](ctx, j.Program, j)
		if err != nil {
			return nil, err
		}
		children = append(children, c)
		if j.Kind == "holder" { // the others must find the key held
			if _, err := await(c); err != nil {
				return nil, err
			}
		}
	}
	for i, c := range children {
		if jobs[i].Kind == "holder" {
			continue
		}
		if _, err := await(c); err != nil {
			return nil, fmt.Errorf("process %d did not start: %w", i, err)
		}
	}
	begin := time.Now().Add(started)
	for _, c := range children {
		if err := c.Send(begin); err != nil {
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
		r, err := await(c)
		if err != nil && !jobs[i].Dies {
			return nil, fmt.Errorf("process %d: %w", i, err)
		}
		results = append(results, r)
	}
	return results, nil
}

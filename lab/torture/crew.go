package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/lab/internal/childproc"
)

// crew has the workers. Each place has one, and gets a new one when it has
// ended.
type crew struct {
	cfg   config
	job   job // the part that all jobs share
	dir   string
	wires []*wire

	mu    sync.Mutex // guards the fields below
	lives []*life    // of all places, including ended ones
	now   []*life    // of each place
}

// life is one worker process.
type life struct {
	*worker

	proc, number int
	diary        string

	// The crew's mutex guards the fields below.
	from, to int64 // when it ran; to is 0 while it runs
	ending   bool  // the crew ends it; set before that
	killed   bool
	failure  string       // what it did wrong
	stops    []judge.Span // times in which it was frozen
}

func (l *life) String() string { return fmt.Sprintf("%d.%d", l.proc, l.number) }

func (c *crew) startAll() error {
	c.now = make([]*life, c.cfg.procs)
	for proc := range c.cfg.procs {
		if err := c.start(proc, 1); err != nil {
			return err
		}
	}
	return nil
}

// start begins a life.
func (c *crew) start(proc, number int) (err error) {
	l := &life{proc: proc, number: number}
	l.diary = filepath.Join(c.dir, "worker-"+l.String()+".jsonl")
	j := c.job
	j.Wire, j.Diary, j.Proc, j.Life, j.TTL = c.wires[proc].addr, l.diary, proc, number, c.cfg.ttl(proc)
	l.from = judge.Now()
	if l.worker, err = childproc.Start[silence](context.Background(), "", j); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives, c.now[proc] = append(c.lives, l), l
	return nil
}

func (c *crew) at(proc int) *life {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now[proc]
}

// ending records that the crew is about to end a life. It returns what the
// worker did wrong before.
func (c *crew) ending(l *life) (failure string) {
	failure = l.diedAlone()
	c.mu.Lock()
	defer c.mu.Unlock()
	l.ending = true
	return failure
}

// ended records the end of a life.
func (c *crew) ended(l *life, at int64, killed bool, failure string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.to, l.killed, l.failure = at, killed, failure
}

// kill ends a worker with kill -9 and starts another in its place.
func (c *crew) kill(proc int) error {
	l := c.at(proc)
	failure := c.ending(l)
	at := judge.Now()
	l.Kill()
	c.ended(l, at, true, failure)
	return c.start(proc, l.number+1)
}

// quit makes a worker end in good order, and starts another.
func (c *crew) quit(proc int) error {
	l := c.at(proc)
	c.leave(l)
	return c.start(proc, l.number+1)
}

// diedAlone records that a worker has ended that should not have.
func (l *life) diedAlone() string {
	select {
	case <-l.Gone:
		return fmt.Sprintf("ended by itself, %v: %s", l.State, l.LastWords())
	default:
		return ""
	}
}

func (c *crew) leave(l *life) {
	const patience = 40 * time.Second
	failure := c.ending(l)
	l.Leave()
	select {
	case <-l.Gone:
		if !l.State.Success() && failure == "" {
			failure = fmt.Sprintf("ended with %v: %s", l.State, l.LastWords())
		}
		c.ended(l, judge.Now(), false, failure)
	case <-time.After(patience):
		l.Signal(syscall.SIGQUIT) // for its stacks
		select {
		case <-l.Gone:
		case <-time.After(patience):
			l.Kill()
		}
		c.ended(l, judge.Now(), true, fmt.Sprintf("did not end in %v: %s", patience, l.LastWords()))
	}
}

// stop freezes a worker for d.
func (c *crew) stop(proc int, d time.Duration) {
	l := c.at(proc)
	from := judge.Now()
	l.Signal(syscall.SIGSTOP)
	select {
	case <-time.After(d):
	case <-l.Gone:
	}
	l.Signal(syscall.SIGCONT)
	c.mu.Lock()
	defer c.mu.Unlock()
	l.stops = append(l.stops, judge.Span{From: from, To: judge.Now()})
}

// endAll makes all workers end in good order.
func (c *crew) endAll() {
	var all sync.WaitGroup
	for proc := range c.cfg.procs {
		all.Go(func() { c.leave(c.at(proc)) })
	}
	all.Wait()
}

// alive returns the reason why a worker has ended that should not have, or "".
func (c *crew) alive() string {
	for proc := range c.cfg.procs {
		l := c.at(proc)
		if f := l.diedAlone(); f != "" && !c.ends(l) { // in this order: the crew notes first what it ends
			return f
		}
	}
	return ""
}

// ends reports whether the crew ends a life, or has done so.
func (c *crew) ends(l *life) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.ending
}

// past returns the lives so far, with what they have recorded.
func (c *crew) past() (all []judge.Life, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lives {
		records, err := judge.ReadDiary(l.diary)
		if err != nil {
			return nil, err
		}
		all = append(all, judge.Life{
			Proc: l.proc, Number: l.number, TTL: c.cfg.ttl(l.proc), From: l.from, To: l.to,
			Killed: l.killed, Failure: l.failure, Stops: slices.Clone(l.stops), Records: records,
		})
	}
	return all, nil
}

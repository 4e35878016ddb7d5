package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/internal/judge"
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
	proc, number int
	diary        string
	cmd          *exec.Cmd
	stdin        io.WriteCloser
	log          bytes.Buffer  // stderr; read after gone
	gone         chan struct{} // closed when it has ended

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
func (c *crew) start(proc, number int) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	l := &life{proc: proc, number: number, gone: make(chan struct{})}
	l.diary = filepath.Join(c.dir, "worker-"+l.String()+".jsonl")
	j := c.job
	j.Wire, j.Diary, j.Proc, j.Life, j.TTL = c.wires[proc].addr, l.diary, proc, number, c.cfg.ttl(proc)
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	l.cmd = exec.Command(program) //nolint:gosec,noctx // it is this program, and ends when its stdin does
	l.cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	l.cmd.Stderr = &l.log
	if l.stdin, err = l.cmd.StdinPipe(); err != nil {
		return err
	}
	l.from = judge.Now()
	if err := l.cmd.Start(); err != nil {
		return err
	}
	go func() { // ends with the process
		_ = l.cmd.Wait()
		close(l.gone)
	}()
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
	_ = l.cmd.Process.Kill()
	<-l.gone
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
	case <-l.gone:
		return fmt.Sprintf("ended by itself, %v: %s", l.cmd.ProcessState, l.words())
	default:
		return ""
	}
}

// words returns its last output.
func (l *life) words() string {
	log := strings.TrimSpace(l.log.String())
	return log[:min(len(log), 8000)]
}

func (c *crew) leave(l *life) {
	const patience = 40 * time.Second
	failure := c.ending(l)
	_ = l.stdin.Close()
	select {
	case <-l.gone:
		if status := l.cmd.ProcessState; !status.Success() && failure == "" {
			failure = fmt.Sprintf("ended with %v: %s", status, l.words())
		}
		c.ended(l, judge.Now(), false, failure)
	case <-time.After(patience):
		_ = l.cmd.Process.Signal(syscall.SIGQUIT) // for its stacks
		select {
		case <-l.gone:
		case <-time.After(patience):
			_ = l.cmd.Process.Kill()
			<-l.gone
		}
		c.ended(l, judge.Now(), true, fmt.Sprintf("did not end in %v: %s", patience, l.words()))
	}
}

// stop freezes a worker for d.
func (c *crew) stop(proc int, d time.Duration) {
	l := c.at(proc)
	from := judge.Now()
	_ = l.cmd.Process.Signal(syscall.SIGSTOP)
	select {
	case <-time.After(d):
	case <-l.gone:
	}
	_ = l.cmd.Process.Signal(syscall.SIGCONT)
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

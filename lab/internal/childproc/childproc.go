// Package childproc runs this program again, as a child that does a job.
//
// Parent and child send each other gob values by the child's stdin and stdout.
// The job is the parent's first. The end of its stdin tells the child to leave.
// The child's stderr has its last words.
package childproc

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

// marker is in the environment of a child.
const marker = "GUARD_LAB_CHILD"

// IsChild reports whether this process is a child, which calls [Main].
func IsChild() bool { return os.Getenv(marker) != "" }

// Parent is the parent of this process.
type Parent struct {
	from *gob.Decoder
	to   *gob.Encoder
}

// Main reads a job, does it, and returns the exit code.
func Main[J any](do func(p *Parent, job J) error) int {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of the terminal; the parent decides
	p := &Parent{gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)}
	var job J
	err := p.from.Decode(&job)
	if err == nil {
		err = do(p, job)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Say sends m, of the type that the parent expects. It is safe for concurrent
// use.
func (p *Parent) Say(m any) error { return p.to.Encode(m) }

// Receive waits for the next value and puts it into v.
func (p *Parent) Receive(v any) error { return p.from.Decode(v) }

// Context returns a context that ends when the parent tells this process to
// leave, or dies. Nothing is received after it was called.
func (p *Parent) Context() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with stdin, that is, with this process or its parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

// Child is a process that this one has started. M is the type of what it says.
type Child[M any] struct {
	Said  <-chan M         // what it has said; closed when it says no more
	Gone  <-chan struct{}  // closed when it has ended
	State *os.ProcessState // how it has ended; read after Gone

	cmd   *exec.Cmd
	stdin io.WriteCloser
	to    *gob.Encoder
	log   bytes.Buffer // stderr; read after Gone
}

// maxSaid is how much a child may say before somebody reads it. Then the child
// waits.
const maxSaid = 1000

// Start starts program, or this program if that is "", and gives it the job.
// The child is killed when ctx ends. Somebody must read Said to its end.
func Start[M any](ctx context.Context, program string, job any) (*Child[M], error) {
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	said, gone := make(chan M, maxSaid), make(chan struct{})
	c := &Child[M]{Said: said, Gone: gone}
	c.cmd = exec.CommandContext(ctx, program)
	c.cmd.Env = append(os.Environ(), marker+"=1")
	c.cmd.Stderr = &c.log
	dieWithParent(c.cmd)
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
	go func() { // ends with the process
		defer close(gone)
		receive(gob.NewDecoder(stdout), said)
		_ = c.cmd.Wait()
		c.State = c.cmd.ProcessState
	}()
	c.to = gob.NewEncoder(c.stdin)
	_ = c.to.Encode(job) // if that fails, the child ends
	return c, nil
}

// receive passes on what a child says, until it says no more.
func receive[M any](from *gob.Decoder, said chan<- M) {
	defer close(said)
	for {
		var m M
		if from.Decode(&m) != nil {
			return
		}
		said <- m
	}
}

// Send sends v to the child.
func (c *Child[M]) Send(v any) error { return c.to.Encode(v) }

// Leave tells the child to end. It does not wait for that.
func (c *Child[M]) Leave() { _ = c.stdin.Close() }

// Signal sends s to the child, if that has not ended.
func (c *Child[M]) Signal(s os.Signal) { _ = c.cmd.Process.Signal(s) }

// Kill ends the child with kill -9, and returns when it has ended.
func (c *Child[M]) Kill() {
	_ = c.cmd.Process.Kill()
	for range c.Said { // nobody asks any more
	}
	<-c.Gone
}

// Pid is the number of the process.
func (c *Child[M]) Pid() int { return c.cmd.Process.Pid }

// LastWords returns the first of what the child has written to stderr. Call it
// after Gone.
func (c *Child[M]) LastWords() string {
	log := strings.TrimSpace(c.log.String())
	return log[:min(len(log), 8000)]
}

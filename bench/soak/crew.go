package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/bench/internal/host"
)

// crew is the workers: each place has one, and another when that has died.
type crew struct {
	cfg     config
	file    string // of the arena
	proxies []*proxy
	book    *book
	places  []*place
}

type place struct {
	proc int
	mu   sync.Mutex // held while one worker is replaced by another
	life *life
	ice  sync.Mutex // held while it is frozen
}

// life is one worker process.
type life struct {
	proc, number int
	cmd          *exec.Cmd
	stdin        io.WriteCloser
	log          bytes.Buffer  // stderr; read after gone
	gone         chan struct{} // closed when it has ended
}

func (c *crew) startAll() error {
	for proc := range c.cfg.procs {
		c.places = append(c.places, &place{proc: proc})
		if err := c.start(c.places[proc]); err != nil {
			return err
		}
	}
	return nil
}

// start begins the next life of a place.
func (c *crew) start(p *place) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	l := &life{proc: p.proc, number: 1, gone: make(chan struct{})}
	if p.life != nil {
		l.number = p.life.number + 1
	}
	text, err := json.Marshal(job{
		Arena: c.file, Addr: c.proxies[p.proc].addr, Mutant: c.cfg.mutant, Proc: l.proc, Life: l.number,
		Callers: c.cfg.callers, Keys: c.cfg.keys, TTL: c.cfg.ttl, Seed: c.cfg.seed,
	})
	if err != nil {
		return err
	}
	l.cmd = exec.Command(program) //nolint:gosec,noctx // it is this program, and ends when its stdin does
	l.cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	l.cmd.Stderr = &l.log
	host.DieWithParent(l.cmd)
	if l.stdin, err = l.cmd.StdinPipe(); err != nil {
		return err
	}
	c.book.begins(l)
	if err := l.cmd.Start(); err != nil {
		return err
	}
	p.life = l
	go func() { // ends with the process
		_ = l.cmd.Wait()
		close(l.gone)
	}()
	return nil
}

// kill ends a worker with kill -9 and starts another in its place, and returns its process id.
func (c *crew) kill(proc int) (pid int) {
	return c.replace(proc, func(l *life) { _ = l.cmd.Process.Kill() })
}

// quit has a worker end in good order, and starts another.
func (c *crew) quit(proc int) { c.replace(proc, c.leave) }

func (c *crew) replace(proc int, end func(*life)) (pid int) {
	p := c.places[proc]
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.life
	at := now()
	c.diedAlone(l)
	end(l)
	<-l.gone
	c.book.ends(l, at)
	if err := c.start(p); err != nil {
		c.book.violation("broken run", "no new worker: %v", err)
	}
	return l.cmd.Process.Pid
}

// diedAlone notes that a worker has ended that should not have.
func (c *crew) diedAlone(l *life) {
	select {
	case <-l.gone:
		c.book.violation("worker failed", "%d.%d: %v: %s", l.proc, l.number, l.cmd.ProcessState, tail(l.log.String()))
	default:
	}
}

func tail(log string) string {
	log = strings.TrimSpace(log)
	return log[:min(len(log), 4000)]
}

// leave has a worker end in good order; one that is stopped is let go on before that.
func (c *crew) leave(l *life) {
	_ = l.stdin.Close()
	const patience = 30 * time.Second
	select {
	case <-l.gone:
		if log := l.log.String(); log != "" {
			c.book.violation("worker failed", "%d.%d: %s", l.proc, l.number, tail(log))
		}
	case <-time.After(patience):
		_ = l.cmd.Process.Kill()
		c.book.violation("worker failed", "%d.%d did not end in %v", l.proc, l.number, patience)
	}
}

// stop freezes a worker for d.
func (c *crew) stop(proc int, d time.Duration) {
	p := c.places[proc]
	p.ice.Lock()
	defer p.ice.Unlock()
	p.mu.Lock()
	l := p.life
	p.mu.Unlock()
	from := now()
	_ = l.cmd.Process.Signal(syscall.SIGSTOP)
	select {
	case <-time.After(d):
	case <-l.gone:
	}
	_ = l.cmd.Process.Signal(syscall.SIGCONT)
	c.book.stopped(l, from, now())
}

// replaceDead starts another worker wherever one has ended by itself.
func (c *crew) replaceDead() {
	for _, p := range c.places {
		p.mu.Lock()
		l := p.life
		p.mu.Unlock()
		select {
		case <-l.gone:
			c.replace(p.proc, func(*life) {})
		default:
		}
	}
}

// endAll has all workers end in good order.
func (c *crew) endAll() {
	var all sync.WaitGroup
	for _, p := range c.places {
		all.Go(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			at := now()
			c.diedAlone(p.life)
			c.leave(p.life)
			<-p.life.gone
			c.book.ends(p.life, at)
		})
	}
	all.Wait()
}

func (l *life) String() string { return fmt.Sprintf("%d.%d", l.proc, l.number) }

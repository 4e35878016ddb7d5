package show

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the parent's patience with a child.
const (
	startLimit = 20 * time.Second
	stopLimit  = 5 * time.Second
)

// instance is one app instance, seen from the parent: a child process.
type instance struct {
	name  string
	url   string
	cmd   *exec.Cmd
	stdin io.Closer // its end is the child's sign to leave
	ready *bufio.Reader
	log   tail

	halted atomic.Bool // paused on purpose: nobody sends it anything new

	gone chan struct{} // closed once the process has ended and died is set
	died error
}

// startFleet starts n instances at once and returns when all of them serve. It
// gets the settings of each from settings.
func startFleet(ctx context.Context, n int, settings func(name string) instanceConfig) (fleet []*instance, err error) {
	defer func() {
		if err != nil {
			stopFleet(fleet)
			fleet = nil
		}
	}()
	for i := range n {
		in, err := startInstance(settings(fmt.Sprintf("app-%d", i+1)))
		if err != nil {
			return fleet, err
		}
		fleet = append(fleet, in)
	}
	for _, in := range fleet {
		if err := in.awaitReady(ctx); err != nil {
			return fleet, err
		}
	}
	return fleet, nil
}

// stopFleet ends all instances and returns when they are gone.
func stopFleet(fleet []*instance) {
	var wg sync.WaitGroup
	for _, in := range fleet {
		wg.Go(in.stop)
	}
	wg.Wait()
}

// startInstance runs this program again, as a child.
func startInstance(cfg instanceConfig) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:gosec,noctx // it is this program; stopFleet ends it in good order
	in := &instance{name: cfg.Name, cmd: cmd, gone: make(chan struct{})}
	in.cmd.Env = append(os.Environ(), instanceEnv+"="+string(settings))
	in.cmd.Stderr = &in.log
	dieWithParent(in.cmd)
	stdout, err := in.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in.ready = bufio.NewReader(stdout)
	if in.stdin, err = in.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := in.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", in.name, err)
	}
	return in, nil
}

// awaitReady reads the child's address, and from then on waits for its end in
// the background.
func (in *instance) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	giveUp := context.AfterFunc(ctx, in.kill)
	line, err := in.ready.ReadString('\n')
	giveUp()
	in.url = "http://" + strings.TrimSpace(line)
	go func() { // ends with the process
		in.died = in.cmd.Wait()
		close(in.gone)
	}()
	if err != nil {
		<-in.gone
		return fmt.Errorf("%s did not start: %w\n%s", in.name, errors.Join(in.died, ctx.Err()), in.log.text())
	}
	return nil
}

// stop ends the process in good order, or by force if that takes long.
func (in *instance) stop() {
	_ = in.resume() // a stopped process would not notice; one that has ended need not
	in.stdin.Close()
	if in.url == "" { // nobody waits for it yet
		in.kill()
		_ = in.cmd.Wait()
		return
	}
	select {
	case <-in.gone:
	case <-time.After(stopLimit):
		in.kill()
		<-in.gone
	}
}

// alive says whether the process runs, or is paused.
func (in *instance) alive() bool {
	select {
	case <-in.gone:
		return false
	default:
		return true
	}
}

// kill is kill -9. Killing a process that has ended does nothing.
func (in *instance) kill() { _ = in.cmd.Process.Kill() }

// pid returns the process id.
func (in *instance) pid() int { return in.cmd.Process.Pid }

// tail keeps the last part of what a child logs, to be shown if the run fails.
type tail struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = bytes.Clone(t.buf[over:])
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}

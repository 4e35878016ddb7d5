package show

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
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
	log   tail

	halted atomic.Bool // paused on purpose: nobody sends it anything new
	ended  bool        // the sale has ended it; see sale.end
	lost   bool        // it had died before

	gone chan struct{} // closed once the process has ended
}

// startFleet starts n instances at once and returns when all of them serve. It
// gets the settings of each from settings, by its number from 1 on.
func startFleet(ctx context.Context, n int, settings func(n int) instanceConfig) ([]*instance, error) {
	fleet, errs := make([]*instance, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fleet[i], errs[i] = startInstance(ctx, settings(i+1)) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	for i := 0; err != nil && i < n; i++ {
		if errs[i] == nil {
			fleet[i].stop()
		}
	}
	return fleet, err
}

// childAttr is what else the system is to do with a child.
var childAttr *syscall.SysProcAttr

// startInstance runs this program again, as a child, and returns when it
// serves.
func startInstance(ctx context.Context, cfg instanceConfig) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:gosec,noctx // it is this program; stop ends it in good order
	in := &instance{name: cfg.Name, cmd: cmd, gone: make(chan struct{})}
	cmd.Env = append(os.Environ(), instanceEnv+"="+string(settings))
	cmd.Stderr, cmd.SysProcAttr = &in.log, childAttr
	stdout, err1 := cmd.StdoutPipe()
	stdin, err2 := cmd.StdinPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	in.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", in.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	giveUp := context.AfterFunc(ctx, in.kill)
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	giveUp()
	in.url = "http://" + strings.TrimSpace(addr)
	go func() { // ends with the process
		_ = cmd.Wait() // what it says is in cmd.ProcessState
		close(in.gone)
	}()
	if err != nil {
		<-in.gone
		return nil, fmt.Errorf("%s did not start: %w\n%v\n%s", in.name, errors.Join(err, ctx.Err()), cmd.ProcessState,
			in.log)
	}
	return in, nil
}

// stop ends the process in good order, or by force if that takes long.
func (in *instance) stop() {
	_ = in.resume() // a stopped process would not notice; one that has ended need not
	in.stdin.Close()
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

// ask reads an answer in JSON.
func (in *instance) ask(ctx context.Context, client *http.Client, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	return shop.GetJSON(ctx, client, in.url+path, into)
}

// tail keeps the last part of what a child logs, to be read once it has ended.
type tail string

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	*t += tail(p)
	*t = (*t)[max(0, len(*t)-tailSize):]
	return len(p), nil
}

//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// workerEnv has the settings of a process as JSON.
const workerEnv = "STORM_WORKER"

type workerSettings struct {
	Settings
	Judge     string
	Addresses []string
}

// worker is a process. The end of its standard input ends it.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func startWorker(s workerSettings) (*worker, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(path)}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	w.cmd.Stderr = os.Stderr
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return w, w.cmd.Start()
}

// kill ends the process by SIGKILL.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	w.end()
}

// end lets the process release its keys, and waits for its end.
func (w *worker) end() {
	_ = w.stdin.Close()
	_ = w.cmd.Wait()
}

// process is the work of another process, if this is one. It returns false
// otherwise.
func process() bool {
	text := os.Getenv(workerEnv)
	if text == "" {
		return false
	}
	var s workerSettings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	chosen, err := named(s.Store)
	if err != nil {
		panic(err)
	}
	l, end, err := chosen.open(s.Addresses)
	if err != nil {
		panic(err)
	}
	defer end()
	g, err := guard.New(l, guard.WithTTL(s.TTL), guard.WithFencing())
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with its input
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var all sync.WaitGroup
	work := sections
	if s.Once {
		work = payments
	}
	for range s.Callers {
		all.Go(func() { work(ctx, g, s, dialJudge(s.Judge)) })
	}
	all.Wait()
	closing, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.Close(closing); err != nil {
		fmt.Fprintln(os.Stderr, "Close:", err)
	}
	return true
}

// tell tells the judge what happens, and blocks until it has noted that.
type tell func(what string, key, limit int, token uint64)

func dialJudge(addr string) tell {
	judge, err := net.Dial("tcp", addr) // ends with the process
	if err != nil {
		panic(err)
	}
	answers := bufio.NewReader(judge)
	return func(what string, key, limit int, token uint64) {
		fmt.Fprintln(judge, what, os.Getpid(), key, limit, token)
		_, _ = answers.ReadString('\n')
	}
}

// sections enters sections until ctx ends.
func sections(ctx context.Context, g *guard.Guard, s workerSettings, tell tell) {
	for ctx.Err() == nil {
		key := rand.N(keys)
		limit, g := role(g, key, s.Modes)
		err := g.Do(ctx, guard.Key("key", key), func(ctx context.Context) (err error) {
			var token uint64
			if limit < locker.NoLimit {
				token, err = guard.FencingToken(ctx)
			}
			if err != nil || ctx.Err() != nil {
				return err
			}
			tell("in", key, limit, token)
			defer tell("out", key, limit, token)
			hold := time.Millisecond
			if rand.N(20) == 0 {
				hold = rand.N(2 * s.TTL) // so that holders are cut off too
			}
			select {
			case <-time.After(hold):
			case <-ctx.Done():
			}
			return nil
		})
		if err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// role draws what a call is, and returns the guard for it. With modes, most
// calls for the second key take one of 3 permits, and most for the third share
// it.
func role(g *guard.Guard, key int, modes bool) (limit int, _ *guard.Guard) {
	switch {
	case !modes || key == 0 || rand.N(5) == 0:
		return 1, g
	case key == 1:
		return 3, g.With(guard.WithPermits(3))
	default:
		return locker.NoLimit, g.With(guard.WithShared())
	}
}

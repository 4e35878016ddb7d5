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

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// workerEnv has the settings of a worker as JSON. This program is its own
// worker.
const workerEnv = "ETCDTEST_STORM_WORKER"

type workerSettings struct {
	Judge   string
	Members []string // one pipe each
	Callers int
	TTL     time.Duration
	Modes   bool
}

func isWorker() bool { return os.Getenv(workerEnv) != "" }

// worker is a process. Its standard input ends it.
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

// kill ends the worker by SIGKILL.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	w.end()
}

// end lets the worker release its keys, and waits for its end.
func (w *worker) end() {
	_ = w.stdin.Close()
	_ = w.cmd.Wait()
}

// work is main of a worker.
func work() {
	var s workerSettings
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &s); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with its input
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	clients := make([]*clientv3.Client, len(s.Members))
	for i, addr := range s.Members {
		c, err := clientv3.New(etcdtest.Config(addr))
		if err != nil {
			panic(err)
		}
		defer c.Close()
		clients[i] = c
	}
	first := os.Getpid() % len(clients)
	clients = append(clients[first:], clients[:first]...)
	l := etcdlocker.New(clients[0], etcdlocker.WithMembers(clients[1:]...))
	g, err := guard.New(l, guard.WithTTL(s.TTL), guard.WithFencing())
	if err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	for range s.Callers {
		all.Go(func() { call(ctx, g, s) })
	}
	all.Wait()
	closing, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.Close(closing); err != nil {
		fmt.Fprintln(os.Stderr, "Close:", err)
	}
}

// call enters sections until ctx ends.
func call(ctx context.Context, g *guard.Guard, s workerSettings) {
	judge, err := net.Dial("tcp", s.Judge)
	if err != nil {
		panic(err)
	}
	defer judge.Close()
	answers := bufio.NewReader(judge)
	tell := func(what string, key, limit int, token uint64) {
		fmt.Fprintln(judge, what, os.Getpid(), key, limit, token)
		_, _ = answers.ReadString('\n')
	}
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

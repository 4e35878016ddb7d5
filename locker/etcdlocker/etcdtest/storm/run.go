package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// world is what the storm rages in.
type world struct {
	settings
	judge   *judge
	members []*etcdtest.Member
	pipes   []*etcdtest.Pipe // to members
	workers []*worker
}

func run(ctx context.Context, s settings) (report, error) {
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		return report{}, err
	}
	defer os.RemoveAll(dir)
	w := &world{settings: s}
	defer w.end()
	if w.judge, err = newJudge(); err != nil {
		return report{}, err
	}
	if w.members, err = etcdtest.NewCluster(ctx, 3, dir, etcdtest.Settings{}); err != nil {
		return report{}, err
	}
	for _, m := range w.members {
		p, err := etcdtest.OpenPipe(ctx, m.Addr)
		if err != nil {
			return report{}, err
		}
		w.pipes = append(w.pipes, p)
	}
	for range s.processes {
		if err := w.addWorker(); err != nil {
			return report{}, err
		}
	}
	for start := time.Now(); time.Since(start) < s.length; {
		if err := w.strike(ctx); err != nil {
			return report{}, err
		}
		time.Sleep(time.Second + rand.N(2*time.Second)) // it must serve again meanwhile
	}
	return w.finish(ctx)
}

func (w *world) addWorker() error {
	s := workerSettings{Judge: w.judge.listener.Addr().String(), Callers: w.callers, TTL: w.ttl, Modes: w.modes}
	for _, p := range w.pipes {
		s.Members = append(s.Members, p.Addr)
	}
	one, err := startWorker(s)
	if err == nil {
		w.workers = append(w.workers, one)
	}
	return err
}

// strike lets one fault happen, and mends it.
func (w *world) strike(ctx context.Context) error {
	length := time.Duration(rand.N(int64(2 * w.ttl)))
	i := rand.N(len(w.members))
	switch rand.N(7) {
	case 0:
		w.judge.fault("process killed")
		w.workers[0].kill()
		w.workers = w.workers[1:]
		return w.addWorker()
	case 1:
		w.judge.fault("process stopped")
		p := w.workers[rand.N(len(w.workers))].cmd.Process
		w.judge.stops(p.Pid)
		_ = p.Signal(syscall.SIGSTOP)
		time.Sleep(length)
		_ = p.Signal(syscall.SIGCONT)
	case 2, 3:
		w.judge.fault("leader killed")
		leader := w.leader(ctx)
		leader.Kill()
		time.Sleep(length)
		return leader.Start(ctx)
	case 4:
		w.judge.fault("leader stopped")
		leader := w.leader(ctx)
		leader.Pause()
		time.Sleep(length)
		leader.Resume()
	case 5:
		w.judge.fault("cut off from one")
		mend := w.pipes[i].Cut(rand.N(2) == 0, true)
		time.Sleep(length)
		mend()
	default:
		w.judge.fault("cut off from all")
		for _, p := range w.pipes {
			mend := p.Cut(true, true)
			defer mend()
		}
		time.Sleep(length)
	}
	return nil
}

// leader returns the member that leads, or any if that is not known.
func (w *world) leader(ctx context.Context) *etcdtest.Member {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, m := range w.members {
		c, err := clientv3.New(etcdtest.Config(m.Addr))
		if err != nil {
			continue
		}
		defer c.Close()
		if s, err := c.Status(ctx, m.Addr); err == nil && s.Leader == s.Header.MemberId {
			return m
		}
	}
	return w.members[0]
}

// finish ends the workers as a service would end, and looks what they have
// left.
func (w *world) finish(ctx context.Context) (report, error) {
	for _, one := range w.workers {
		one.end()
	}
	w.workers = nil
	c, err := clientv3.New(etcdtest.Config(w.members[0].Addr))
	if err != nil {
		return report{}, err
	}
	defer c.Close()
	var left []string
	for start := time.Now(); time.Since(start) < w.ttl+time.Minute; time.Sleep(100 * time.Millisecond) {
		r, err := c.Get(ctx, "", clientv3.WithPrefix())
		if err != nil {
			return report{}, fmt.Errorf("look at what is left: %w", err)
		}
		left = nil
		for _, kv := range r.Kvs {
			left = append(left, string(kv.Key))
		}
		if len(left) == 0 {
			break
		}
	}
	r := w.judge.close()
	r.left = left
	return r, nil
}

func (w *world) end() {
	for _, one := range w.workers {
		one.kill()
	}
	for _, p := range w.pipes {
		p.Close()
	}
	for _, m := range w.members {
		m.Kill()
	}
}

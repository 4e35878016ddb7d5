//go:build unix

package main

import (
	"context"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lossy"
	"github.com/go-lockguard/guard/internal/storm"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// world is what the storm rages in.
type world struct {
	members []*etcdtest.Member
	pipes   []*lossy.Pipe // to members
}

func run(ctx context.Context, s storm.Settings) (_ storm.Report, err error) {
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		return storm.Report{}, err
	}
	defer os.RemoveAll(dir)
	w := &world{}
	defer w.end()
	if w.members, err = etcdtest.NewCluster(ctx, 3, dir, etcdtest.Settings{}); err != nil {
		return storm.Report{}, err
	}
	place := storm.Place{Left: w.left}
	for _, m := range w.members {
		p, err := lossy.Open(ctx, m.Addr)
		if err != nil {
			return storm.Report{}, err
		}
		w.pipes, place.Addresses = append(w.pipes, p), append(place.Addresses, p.Addr)
	}
	place.Faults = storm.EnsembleFaults(ctx, w.leader, w.pipes)
	return storm.Run(ctx, s, place, os.Stderr)
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

// left returns all keys in etcd. Results leave it, too.
func (w *world) left(ctx context.Context) (left []string, err error) {
	c, err := clientv3.New(etcdtest.Config(w.members[0].Addr))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r, err := c.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	for _, kv := range r.Kvs {
		left = append(left, string(kv.Key))
	}
	return left, nil
}

func (w *world) end() {
	for _, p := range w.pipes {
		p.Close()
	}
	for _, m := range w.members {
		m.Kill()
	}
}

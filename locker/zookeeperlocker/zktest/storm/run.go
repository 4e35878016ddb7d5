//go:build unix

package main

import (
	"context"
	"os"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lossy"
	"github.com/go-lockguard/guard/internal/storm"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// world is what the storm rages in.
type world struct {
	servers []*zktest.Server
	pipes   []*lossy.Pipe // to servers
	janitor *guard.Guard  // of what the storm has left; nil before its end
}

func run(ctx context.Context, s storm.Settings) (_ storm.Report, err error) {
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		return storm.Report{}, err
	}
	defer os.RemoveAll(dir)
	w := &world{}
	defer w.end(ctx)
	if w.servers, err = zktest.New(ctx, 3, dir, zktest.Settings{}); err != nil {
		return storm.Report{}, err
	}
	place := storm.Place{Left: w.left}
	for _, m := range w.servers {
		p, err := lossy.Open(ctx, m.Addr)
		if err != nil {
			return storm.Report{}, err
		}
		w.pipes, place.Addresses = append(w.pipes, p), append(place.Addresses, p.Addr)
	}
	place.Faults = storm.EnsembleFaults(ctx, w.leader, w.pipes)
	return storm.Run(ctx, s, place, os.Stderr)
}

// leader returns the server that leads, or any if that is not known.
func (w *world) leader(ctx context.Context) *zktest.Server {
	for _, s := range w.servers {
		if s.Leads(ctx) {
			return s
		}
	}
	return w.servers[0]
}

// left returns the keys that stay. Its guard is the janitor.
func (w *world) left(ctx context.Context) ([]string, error) {
	if w.janitor == nil {
		l, err := locker.FromDSN("zk://" + w.servers[0].Addr)
		if err != nil {
			return nil, err
		}
		if w.janitor, err = guard.New(l); err != nil {
			return nil, err
		}
	}
	return storm.Left(ctx, w.janitor)
}

func (w *world) end(ctx context.Context) {
	if w.janitor != nil {
		_ = w.janitor.Close(ctx)
	}
	for _, p := range w.pipes {
		p.Close()
	}
	for _, m := range w.servers {
		m.Kill()
	}
}

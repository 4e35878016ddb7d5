package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// world has the servers of a run. They are the servers under test and the
// guarded resource.
type world struct {
	topology libs.Topology
	lab      *redisproc.Lab
	store    *redisproc.Server

	nodes    []*redisproc.Server // of single and redlock
	sentinel *redisproc.Sentinel
	cluster  *redisproc.Cluster

	// Of other stores.
	machines []machine
	behind   *sqltest.Server // the database
	pooler   machine         // in front of it
	ends     []func()        // of what was started

	addrs  []string // for the workers
	master string

	// direct looks at the store past the failing network; nil if the servers are
	// not always there to be asked.
	direct *contest.Guard
}

// ending has f called when the run is over, before what was started earlier.
func (w *world) ending(f func()) { w.ends = append(w.ends, f) }

// close ends all servers.
func (w *world) close() {
	for _, f := range slices.Backward(w.ends) {
		f()
	}
}

// keepAll makes a server write each change to a file before it answers. The
// file outlives a kill -9.
var keepAll = []string{"--appendonly", "yes", "--appendfsync", "no"}

// redlockNodes is the number of independent servers.
const redlockNodes = 3

func newWorld(ctx context.Context, dir string, t libs.Topology) (w *world, err error) {
	dir = filepath.Join(dir, "servers")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	w = &world{topology: t, lab: &redisproc.Lab{Dir: dir}}
	w.ending(w.lab.Close)
	end := w.close
	defer func() {
		if err != nil {
			end()
		}
	}()
	if w.store, err = w.lab.Start(); err != nil {
		return nil, err
	}
	if err := w.start(ctx, dir); err != nil {
		return nil, err
	}
	if t != libs.Single && slices.Contains(libs.Redises, t) {
		return w, nil
	}
	l, err := libs.Guard.Open(libs.Setup{Topology: t, Addrs: w.addrs})
	if err != nil {
		return nil, err
	}
	w.direct = l.(*contest.Guard)
	w.ending(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.direct.Close(ctx)
	})
	return w, nil
}

// start starts the servers of the topology.
func (w *world) start(ctx context.Context, dir string) (err error) {
	switch w.topology {
	case libs.Sentinel:
		if w.sentinel, err = w.lab.StartSentinel(); err == nil {
			w.addrs, w.master, w.nodes = w.sentinel.Addrs(), redisproc.SentinelName, w.sentinel.Nodes
		}
	case libs.Cluster:
		if w.cluster, err = w.lab.StartCluster(true); err == nil {
			w.addrs, w.nodes = w.cluster.Addrs(), w.cluster.Nodes
		}
	case libs.Single, libs.Redlock:
		n := 1
		if w.topology == libs.Redlock {
			n = redlockNodes
		}
		w.nodes, err = w.lab.StartN(n, keepAll...)
		for _, s := range w.nodes {
			w.addrs = append(w.addrs, s.Addr)
		}
	default:
		return w.startOther(ctx, dir)
	}
	return err
}

// machine returns a server that serves leases now, chosen by a random number.
func (w *world) machine(n int) (machine, error) {
	if len(w.machines) > 0 {
		return w.ofOther(n), nil
	}
	return w.server(n)
}

// server is machine for Redis.
func (w *world) server(n int) (*redisproc.Server, error) {
	switch w.topology {
	case libs.Sentinel:
		return w.sentinel.Primary()
	case libs.Cluster:
		return w.cluster.Primary(n % 16384)
	}
	return w.nodes[n%len(w.nodes)], nil
}

// failover replaces a primary by command.
func (w *world) failover(n int) error {
	if w.topology == libs.Sentinel {
		return w.sentinel.Failover()
	}
	how := ""
	if n%2 == 0 {
		how = "FORCE"
	}
	return errors.Join(w.cluster.Failover(n%16384, how), w.cluster.AwaitSettled())
}

// death kills a primary with kill -9, waits until another server has its place,
// and starts it again.
func (w *world) death(n int) error {
	old, err := w.server(n)
	if err != nil {
		return err
	}
	old.Kill()
	if w.topology == libs.Sentinel {
		err = w.sentinel.AwaitOther(old)
	} else {
		err = w.cluster.AwaitOther(n%16384, old)
	}
	return errors.Join(err, old.Restart())
}

// migrate moves the slot of a key that is in use to another primary.
func (w *world) migrate(n int, slow time.Duration) error {
	slot, err := w.cluster.Slot(libs.Guard.Keys(contest.KeyName(n % 4))[0])
	if err != nil {
		return err
	}
	from, err := w.cluster.Primary(slot)
	if err != nil {
		return err
	}
	for shift := 1; shift < 16384; shift += 1000 {
		if to, err := w.cluster.Primary((slot + shift) % 16384); err == nil && to != from {
			return w.cluster.Migrate(slot, to, slow)
		}
	}
	return fmt.Errorf("no other primary than %s", from.Addr)
}

// primaries returns the nodes that call themselves primaries, and the number of
// nodes that do not answer.
func (w *world) primaries() string {
	var names []string
	for _, s := range w.nodes {
		if primary, err := w.primary(s); err != nil {
			names = append(names, "?")
		} else if primary {
			names = append(names, s.Addr)
		}
	}
	return strings.Join(names, " ")
}

// leftovers returns the remaining keys with their TTLs in ms.
func (w *world) leftovers(ctx context.Context) (left map[string]int64, err error) {
	if len(w.nodes) == 0 {
		return w.listed(ctx)
	}
	left = map[string]int64{}
	for _, s := range w.nodes {
		if primary, err := w.primary(s); err != nil || !primary {
			continue
		}
		names, err := s.Do(ctx, "keys", "*").StringSlice()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			ms, err := s.Do(ctx, "pttl", name).Int64()
			if err == nil && ms != -2 { // the key has ended meanwhile
				left[name] = ms
			}
		}
	}
	return left, nil
}

// primary reports whether a node does not follow another.
func (w *world) primary(s *redisproc.Server) (bool, error) {
	if w.sentinel == nil && w.cluster == nil {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	role, err := s.Do(ctx, "role").Slice()
	return err == nil && len(role) > 0 && role[0] == "master", err
}

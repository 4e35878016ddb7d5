package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-lockguard/guard/lab/torture/libs"
)

// The lanes. In each lane there is one fault at a time.
const (
	workerLane = iota
	serverLane
	lanes
)

// kind is a kind of fault.
type kind struct {
	lane   int
	weight int // its frequency relative to the others of its lane
	length func(rnd *rand.Rand, ttl time.Duration) time.Duration
	do     func(ctx context.Context, n *nemesis, s strike) error

	// forgets lists the topologies whose servers may lose changes that they
	// have confirmed. Then two may hold a key until the lost leases have ended,
	// and only fencing helps. A Redlock notices a restart and tolerates it.
	forgets []libs.Topology
	atOnce  bool            // all is forgotten when the fault is over: later answers hold
	only    []libs.Topology // topologies with such a fault; nil means all
}

var kinds = map[string]kind{
	"kill": {lane: workerLane, weight: 4, length: instant, do: doKill},
	"quit": {lane: workerLane, weight: 1, length: instant, do: doQuit},
	"stop": {lane: workerLane, weight: 4, length: ofTTL, do: doStop},

	"up":     {lane: workerLane, weight: 2, length: ofTTL, do: doHold(true, false), only: served},
	"down":   {lane: workerLane, weight: 2, length: ofTTL, do: doHold(false, true), only: served},
	"both":   {lane: workerLane, weight: 2, length: ofTTL, do: doHold(true, true), only: served},
	"hole":   {lane: workerLane, weight: 2, length: ofTTL, do: doHole, only: served},
	"cut":    {lane: workerLane, weight: 2, length: ofTTL, do: doCut, only: served},
	"delay":  {lane: workerLane, weight: 2, length: ofTTL, do: doDelay, only: served},
	"reply":  {lane: workerLane, weight: 2, length: instant, do: doReply, only: served},
	"cutall": {lane: workerLane, weight: 1, length: upToSecond, do: doCutAll, only: served},

	"pause": {lane: serverLane, weight: 3, length: upToHalf, do: doPause, only: served},
	"restart": {
		lane: serverLane, weight: 2, length: upToSecond, do: doRestart,
		only: slices.Concat([]libs.Topology{libs.Single, libs.Redlock}, others),
	},
	"freeze": {lane: serverLane, weight: 2, length: ofTTL, do: doPause, only: others},
	"pooler": {
		lane: serverLane, weight: 2, length: upToSecond, do: doPooler,
		only: []libs.Topology{libs.PostgresListen, libs.PostgresPoll},
	},
	"wipe": {
		lane: serverLane, weight: 1, length: upToSecond, do: doWipe, forgets: []libs.Topology{libs.Single},
		atOnce: true, only: []libs.Topology{libs.Single, libs.Redlock},
	},
	"clients": {
		lane: serverLane, weight: 2, length: instant, do: doCommand("client", "kill", "type", "normal"),
		only: libs.Redises,
	},
	"pubsub": {
		lane: serverLane, weight: 2, length: instant, do: doCommand("client", "kill", "type", "pubsub"),
		only: libs.Redises,
	},
	"slow":    {lane: serverLane, weight: 2, length: upToHalf, do: doClientPause, only: libs.Redises},
	"scripts": {lane: serverLane, weight: 2, length: instant, do: doCommand("script", "flush"), only: libs.Redises},
	"full":    {lane: serverLane, weight: 1, length: upToSecond, do: doFull, only: libs.Redises},
	"flush": {
		lane: serverLane, weight: 1, length: instant, do: doCommand("flushall"),
		forgets: libs.Redises, atOnce: true, only: libs.Redises,
	},

	"failover": {lane: serverLane, weight: 2, length: instant, do: doFailover, forgets: replicated, only: replicated},
	"death":    {lane: serverLane, weight: 2, length: instant, do: doDeath, forgets: replicated, only: replicated},
	"migrate":  {lane: serverLane, weight: 2, length: upToSecond, do: doMigrate, only: []libs.Topology{libs.Cluster}},
}

var (
	replicated = []libs.Topology{libs.Sentinel, libs.Cluster}
	served     = libs.Topologies[:len(libs.Topologies)-1] // SQLite has no server
	others     = served[len(libs.Redises):]
)

// kindsFor returns the kinds of faults that a topology has.
func kindsFor(t libs.Topology) []string {
	return slices.DeleteFunc(kindNames(), func(name string) bool {
		k := kinds[name]
		return k.only != nil && !slices.Contains(k.only, t)
	})
}

func doKill(_ context.Context, n *nemesis, s strike) error { return n.crew.kill(s.Proc) }
func doQuit(_ context.Context, n *nemesis, s strike) error { return n.crew.quit(s.Proc) }

func doStop(_ context.Context, n *nemesis, s strike) error {
	n.crew.stop(s.Proc, s.Length)
	return nil
}

// doHold holds up the bytes on a worker's wire. They arrive afterwards.
func doHold(up, down bool) func(context.Context, *nemesis, strike) error {
	return func(_ context.Context, n *nemesis, s strike) error {
		w := n.crew.wires[s.Proc]
		var opens []func()
		if up {
			opens = append(opens, w.up.hold())
		}
		if down {
			opens = append(opens, w.down.hold())
		}
		time.Sleep(s.Length)
		for _, open := range opens {
			open()
		}
		return nil
	}
}

// doHole loses all bytes until the connections are given up.
func doHole(_ context.Context, n *nemesis, s strike) error {
	w := n.crew.wires[s.Proc]
	w.holes.Store(true)
	time.Sleep(s.Length)
	w.holes.Store(false)
	w.cut(func(l *link) bool { return l.hole.Load() })
	return nil
}

func doCut(_ context.Context, n *nemesis, s strike) error {
	w := n.crew.wires[s.Proc]
	w.refuses.Store(true)
	defer w.refuses.Store(false)
	w.cut(nil)
	time.Sleep(s.Length)
	return nil
}

// doCutAll cuts off one worker after the other, and reconnects them in the same
// order.
func doCutAll(_ context.Context, n *nemesis, s strike) error {
	for _, w := range n.crew.wires {
		defer w.refuses.Store(false)
		w.refuses.Store(true)
		w.cut(nil)
		time.Sleep(s.Length / time.Duration(2*len(n.crew.wires)))
	}
	time.Sleep(s.Length / 2)
	return nil
}

func doDelay(_ context.Context, n *nemesis, s strike) error {
	w := n.crew.wires[s.Proc]
	w.delay.Store(int64(s.By))
	defer w.delay.Store(0)
	time.Sleep(s.Length)
	return nil
}

func doReply(_ context.Context, n *nemesis, s strike) error {
	n.crew.wires[s.Proc].kills.Add(1)
	return nil
}

func doPause(_ context.Context, n *nemesis, s strike) error {
	srv, err := n.world.machine(s.Server)
	if err != nil {
		return err
	}
	if err := srv.Stop(); err != nil {
		return err
	}
	time.Sleep(s.Length)
	return srv.Cont()
}

// doRestart kills the server with kill -9 and starts it again. The server has
// written every confirmed change into its file.
func doRestart(_ context.Context, n *nemesis, s strike) error {
	srv, err := n.world.machine(s.Server)
	if err != nil {
		return err
	}
	srv.Kill()
	time.Sleep(s.Length)
	return srv.Restart()
}

// doPooler kills what stands in front of the database, and starts it again.
func doPooler(_ context.Context, n *nemesis, s strike) error {
	n.world.pooler.Kill()
	time.Sleep(s.Length)
	return n.world.pooler.Restart()
}

// doWipe is doRestart without the file.
func doWipe(_ context.Context, n *nemesis, s strike) error {
	srv, err := n.world.server(s.Server)
	if err != nil {
		return err
	}
	srv.Kill()
	if err := os.RemoveAll(filepath.Join(srv.Dir, "appendonlydir")); err != nil {
		return err
	}
	time.Sleep(s.Length)
	return srv.Restart()
}

func doCommand(args ...any) func(context.Context, *nemesis, strike) error {
	return func(ctx context.Context, n *nemesis, s strike) error { return n.tell(ctx, s, args...) }
}

// doClientPause makes the server answer no client, or no writer.
func doClientPause(ctx context.Context, n *nemesis, s strike) error {
	of := "all"
	if s.Server%2 == 0 {
		of = "write"
	}
	err := n.tell(ctx, s, "client", "pause", s.Length.Milliseconds(), of)
	time.Sleep(s.Length)
	return err
}

// doFull takes away the server's memory for writes.
func doFull(ctx context.Context, n *nemesis, s strike) error {
	if err := n.tell(ctx, s, "config", "set", "maxmemory", "1"); err != nil {
		return err
	}
	time.Sleep(s.Length)
	return n.tell(ctx, s, "config", "set", "maxmemory", "0")
}

func doFailover(_ context.Context, n *nemesis, s strike) error { return n.world.failover(s.Server) }
func doDeath(_ context.Context, n *nemesis, s strike) error    { return n.world.death(s.Server) }

func doMigrate(_ context.Context, n *nemesis, s strike) error {
	return n.world.migrate(s.Server, s.Length)
}

package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// fault is one that happened. Its times are written under the book's mutex.
type fault struct {
	kind     string
	text     string
	from, to int64          // to is 0 while it lasts
	roles    map[int]string // of a kill: what the dead was on each key
}

func (f *fault) String() string {
	to := "..."
	if f.to != 0 {
		to = clock(f.to)
	}
	s := fmt.Sprintf("%s to %s: %s %s", clock(f.from), to, f.kind, f.text)
	if f.roles != nil {
		s += fmt.Sprint(" ", f.roles)
	}
	return s
}

// strike is a fault that is about to happen: all that is random about it was drawn before.
type strike struct {
	kind   string
	aim    string // at what worker, see aims
	proc   int    // whom, if there is none such
	key    int    // of which key
	length time.Duration
	by     time.Duration // how much slower
}

func (s strike) String() string {
	return fmt.Sprintf("%s of %s of key %d (or %d), %v", s.kind, s.aim, s.key, s.proc, s.length)
}

// kinds are the faults, and how often each comes.
var kinds = map[string]struct {
	weight int
	do     func(ctx context.Context, n *nemesis, s strike, f *fault)
}{
	"kill":   {6, doKill},
	"quit":   {1, func(_ context.Context, n *nemesis, s strike, _ *fault) { n.crew.quit(n.target(s)) }},
	"stop":   {3, func(_ context.Context, n *nemesis, s strike, _ *fault) { n.crew.stop(n.target(s), s.length) }},
	"pubsub": {1, killClients("pubsub")},
	"normal": {1, killClients("normal")},
	"cut":    {1, func(_ context.Context, n *nemesis, s strike, _ *fault) { n.crew.proxies[s.proc].partition(s.length) }},
	"cutall": {1, onAll(func(p *proxy, s strike) { p.partition(s.length / 2) })},
	"hole":   {1, func(_ context.Context, n *nemesis, s strike, _ *fault) { n.crew.proxies[s.proc].swallow(s.length) }},
	"delay":  {1, onAll(func(p *proxy, s strike) { p.slow(s.by, s.length) })},
	"pause":  {1, doPause},
	"freeze": {1, doFreeze},
	"script": {1, func(ctx context.Context, n *nemesis, _ strike, _ *fault) { n.rdb.ScriptFlush(ctx) }},
	"flush":  {2, func(ctx context.Context, n *nemesis, _ strike, _ *fault) { n.rdb.FlushAll(ctx) }},
}

func faultNames() []string { return slices.Sorted(maps.Keys(kinds)) }

// draw returns the next fault.
func draw(rnd *rand.Rand, cfg config) strike {
	var bag []string
	for _, k := range cfg.faults {
		if k == "flush" && !cfg.flush {
			continue
		}
		for range kinds[k].weight {
			bag = append(bag, k)
		}
	}
	s := strike{
		kind: bag[rnd.IntN(len(bag))], aim: drawAim(rnd),
		proc: rnd.IntN(cfg.procs), key: rnd.IntN(cfg.keys), by: upTo(rnd, cfg.ttl/8),
	}
	s.length = upTo(rnd, cfg.ttl*3/4)
	if rnd.IntN(2) == 0 { // beyond the TTL
		s.length = cfg.ttl + upTo(rnd, cfg.ttl*3/2)
	}
	return s
}

// doKill kills a worker and finds out what it was to each key.
func doKill(ctx context.Context, n *nemesis, s strike, f *fault) {
	proc := n.target(s)
	waits := n.book.waitedBy(proc)
	pid := n.crew.kill(proc)
	roles := n.roles(ctx, pid, waits)
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	f.roles = roles
}

func killClients(of string) func(context.Context, *nemesis, strike, *fault) {
	return func(ctx context.Context, n *nemesis, _ strike, _ *fault) {
		n.rdb.ClientKillByFilter(ctx, "type", of, "skipme", "yes")
	}
}

// onAll does something to the network of every worker.
func onAll(do func(*proxy, strike)) func(context.Context, *nemesis, strike, *fault) {
	return func(_ context.Context, n *nemesis, s strike, _ *fault) {
		done := make(chan struct{})
		for _, p := range n.crew.proxies {
			go func() { do(p, s); done <- struct{}{} }()
		}
		for range n.crew.proxies {
			<-done
		}
	}
}

// doPause has the server answer nobody for a while.
func doPause(ctx context.Context, n *nemesis, s strike, _ *fault) {
	n.rdb.ClientPause(ctx, s.length/2)
	time.Sleep(s.length / 2)
}

// doFreeze stops the server's process.
func doFreeze(_ context.Context, n *nemesis, s strike, _ *fault) {
	if n.ice.TryLock() {
		defer n.ice.Unlock()
		_ = n.server.Signal(syscall.SIGSTOP)
		time.Sleep(s.length / 2)
		_ = n.server.Signal(syscall.SIGCONT)
	}
}

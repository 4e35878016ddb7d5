package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// torture does the whole run of one library. An error means that there was no
// run.
func torture(ctx context.Context, cfg config, lib *libs.Library, progress io.Writer) (v *judge.Verdict, err error) {
	dir, keep, err := historyDir(cfg, lib)
	if err != nil {
		return nil, err
	}
	defer func() {
		if !keep && v != nil && !v.Fails() {
			_ = os.RemoveAll(dir)
		}
	}()
	fmt.Fprintf(progress, "%s: %s\n", lib.Name, cfg.replay(lib))
	w, err := newWorld(ctx, dir, cfg.topology)
	if err != nil {
		return nil, err
	}
	defer w.close()
	c := &crew{cfg: cfg, dir: dir, job: job{
		Library: lib.Name, Mutant: cfg.mutant, Replicas: cfg.replicas, Topology: cfg.topology, Addrs: w.addrs,
		Master: w.master, Store: w.store.Addr,
		Callers: cfg.callers, Keys: cfg.keys, Long: cfg.long, Roles: cfg.roles, Seed: cfg.seed,
	}}
	for range cfg.procs {
		wire, err := newWire(ctx)
		if err != nil {
			return nil, err
		}
		defer wire.close()
		c.wires = append(c.wires, wire)
	}
	diary, err := os.Create(filepath.Join(dir, "nemesis.txt")) //nolint:gosec // in the directory of the run
	if err != nil {
		return nil, err
	}
	defer diary.Close()
	eyes := newEyes(w, lib, cfg)
	n := &nemesis{crew: c, world: w, log: progress, diary: diary, eyes: eyes}
	r := &run{seen: eyes != nil, cfg: cfg, lib: lib, dir: dir, crew: c, nemesis: n, world: w, from: judge.Now()}
	if err := c.startAll(); err != nil {
		return nil, err
	}
	v, err = r.last(ctx, progress)
	if v != nil && v.Fails() {
		fmt.Fprintf(progress, "%s: history in %s\n", lib.Name, dir)
	}
	return v, err
}

// historyDir makes the directory of a run. If keep is true the directory stays.
func historyDir(cfg config, lib *libs.Library) (dir string, keep bool, err error) {
	if cfg.dir == "" {
		dir, err = os.MkdirTemp("", "torture-"+lib.Name+"-")
		return dir, false, err
	}
	dir = filepath.Join(cfg.dir, lib.Name)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		return "", false, fmt.Errorf("%s is not empty", dir)
	}
	return dir, true, os.MkdirAll(dir, 0o750)
}

// run is the torture of one library.
type run struct {
	cfg     config
	lib     *libs.Library
	dir     string
	crew    *crew
	nemesis *nemesis
	world   *world
	seen    bool // whether the role of a killed worker for a key is known
	from    int64
	calm    atomic.Int64 // when the last fault was over; 0 if not yet
	to      int64
	left    map[string]int64 // keys in the servers at the end, with their TTLs in ms
}

// last lets workers and nemesis go on until the time is over, and then judges.
// A mutant's run ends as soon as the mutant is caught.
func (r *run) last(ctx context.Context, progress io.Writer) (*judge.Verdict, error) {
	limited, cancel := context.WithTimeout(ctx, r.cfg.length)
	defer cancel()
	watched := r.watch(ctx)
	defer watched()
	var struck sync.WaitGroup // ends with the schedule, or the run
	struck.Go(func() {
		r.nemesis.run(limited, newSchedule(r.cfg))
		r.calm.Store(judge.Now())
	})
	var caught *judge.Verdict
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for limited.Err() == nil && caught == nil {
		select {
		case <-limited.Done():
		case <-look.C:
			if f := r.crew.alive(); f != "" {
				cancel()
			}
			if r.cfg.mutant != "" {
				if v, err := r.judge(ctx, false); err == nil && v.Fails() { // an error is that of the end, too
					caught = v
					cancel()
				}
			}
		}
	}
	struck.Wait()
	if caught == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		if err := r.settle(ctx); err != nil {
			return nil, err
		}
	}
	r.to = judge.Now()
	r.crew.endAll()
	watched()
	if caught != nil {
		return caught, nil
	}
	return r.end(ctx, progress)
}

// watch records elections until the function that it returns is called, which
// waits for that. The workers run for longer than the schedule, and the last
// fault may come late on a busy machine.
func (r *run) watch(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { r.nemesis.watch(ctx) })
	return sync.OnceFunc(func() { cancel(); watch.Wait() })
}

// settleMost is the max time for a run to see enough, even on a busy machine.
const settleMost = time.Minute

// settle goes on without faults until the run has seen enough, because a busy
// machine may have left it little time. It gives up after settleMost, and the
// judge fails a run in which a key is never granted again.
func (r *run) settle(ctx context.Context) error {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for limit := judge.Now() + int64(settleMost); judge.Now() < limit; {
		h, err := r.history(ctx, false)
		r.to = judge.Now()
		if err != nil || r.rules().Enough(h, len(r.cfg.faults) > 0) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
	return nil
}

// leastGrants is the min number of grants in a run.
func (r *run) leastGrants() int { return int(r.cfg.length.Seconds()) * 10 }

func (r *run) end(ctx context.Context, progress io.Writer) (*judge.Verdict, error) {
	ctx = context.WithoutCancel(ctx)
	left, err := r.world.leftovers(ctx)
	if err != nil {
		return nil, errors.Join(errors.New("the servers cannot be read at the end"), err)
	}
	r.left = left
	v, err := r.judge(ctx, true)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(progress, "%s: %d grants, %d violations\n", r.lib.Name, v.Grants, v.Total())
	return v, nil
}

// history is everything that is known of the run.
func (r *run) history(ctx context.Context, complete bool) (*judge.History, error) {
	p := judge.Past{
		Faults: r.nemesis.happened(), Elections: r.nemesis.elected(), Most: r.cfg.mostTTL(), Complete: complete,
	}
	// before the diaries: a write is in them if it is here, or its worker has
	// died
	store := openStore(r.world.store.Addr)
	defer func() { _ = store.close() }()
	for key := range r.cfg.keys {
		log, err := store.log(ctx, key)
		if err != nil {
			return nil, err
		}
		p.Log = append(p.Log, log)
	}
	var err error
	if p.Lives, err = r.crew.past(); err != nil {
		return nil, err
	}
	return judge.NewHistory(p), nil
}

// rules are what the run is judged by.
func (r *run) rules() *judge.Run {
	rules := &judge.Run{
		Library: judge.Library{
			Name: r.lib.Name, Own: r.lib == libs.Guard, Tokens: r.lib.Tokens, Tells: r.lib.Tells,
		},
		Replay: r.cfg.replay(r.lib), Roles: r.cfg.roles, Most: r.cfg.mostTTL(),
		Slack: r.cfg.slack, GapSlack: r.cfg.gapSlack,
		Late: max(libs.LimitsOf(r.cfg.topology).Late, libs.LimitsOf(r.cfg.topology).LateForOthers),
		Seen: r.seen, Least: r.leastGrants(), Calm: r.calm.Load(), To: r.to, Left: r.left,
	}
	for key := range r.cfg.keys {
		rules.Leases = append(rules.Leases, contest.KeyName(key))
		rules.Leases = append(rules.Leases, r.lib.Keys(contest.KeyName(key))...)
	}
	return rules
}

// judge looks at the history so far, or at all of it.
func (r *run) judge(ctx context.Context, complete bool) (*judge.Verdict, error) {
	h, err := r.history(ctx, complete)
	if err != nil {
		return nil, err
	}
	return r.rules().Judge(h), nil
}

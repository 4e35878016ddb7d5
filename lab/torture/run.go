package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/lab/torture/libs"
)

// torture does the whole run of one library. An error means that there was no
// run.
func torture(ctx context.Context, cfg config, lib *libs.Library, progress io.Writer) (v *verdict, err error) {
	dir, keep, err := historyDir(cfg, lib)
	if err != nil {
		return nil, err
	}
	defer func() {
		if !keep && v != nil && !v.fails() {
			_ = os.RemoveAll(dir)
		}
	}()
	fmt.Fprintf(progress, "%s: %s\n", lib.Name, cfg.replay(lib))
	w, err := newWorld(dir, cfg.topology)
	if err != nil {
		return nil, err
	}
	defer w.lab.Close()
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
	eyes, err := newEyes(w, lib)
	if err != nil {
		return nil, err
	}
	defer eyes.close()
	n := &nemesis{crew: c, world: w, log: progress, diary: diary, eyes: eyes}
	r := &run{seen: eyes != nil, cfg: cfg, lib: lib, dir: dir, crew: c, nemesis: n, world: w, from: now()}
	if err := c.startAll(); err != nil {
		return nil, err
	}
	v, err = r.last(ctx, progress)
	if v != nil && v.fails() {
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
	calm    int64 // when the last fault was over; 0 if not yet
	to      int64
	left    map[string]int64 // keys in the servers at the end, with their TTLs in ms
}

// last lets workers and nemesis go on until the time is over, and then judges.
// A mutant's run ends as soon as the mutant is caught.
func (r *run) last(ctx context.Context, progress io.Writer) (*verdict, error) {
	limited, cancel := context.WithTimeout(ctx, r.cfg.length)
	defer cancel()
	var struck sync.WaitGroup // ends with the schedule, or the run
	struck.Go(func() {
		r.nemesis.run(limited, newSchedule(r.cfg))
		r.calm = now()
	})
	struck.Go(func() { r.nemesis.watch(limited) })
	var caught *verdict
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
				if v, err := r.judge(ctx, false); err != nil || v.fails() {
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
	r.to = now()
	r.crew.endAll()
	if caught != nil {
		return caught, nil
	}
	return r.end(ctx, progress)
}

// settleMost is the max time for a run to see enough, even on a busy machine.
const settleMost = time.Minute

// settle goes on without faults until the run has seen enough, because a busy
// machine may have left it little time. It gives up after settleMost, and the
// judge fails a run in which a key is never granted again.
func (r *run) settle(ctx context.Context) error {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for limit := now() + int64(settleMost); now() < limit; {
		h, err := r.history(ctx, false)
		r.to = now()
		if err != nil || r.enough(h) {
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

// enough reports whether the run has seen enough grants to judge it. Each key
// needs one after the last fault. A run without faults must have seen
// hand-overs too, because they are its purpose.
func (r *run) enough(h *history) bool {
	grants := 0
	for _, visits := range h.keys {
		grants += len(visits)
		if !slices.ContainsFunc(visits, func(x *visit) bool { return x.got > r.calm }) {
			return false
		}
	}
	if len(r.cfg.faults) == 0 {
		if overs, _ := new(verdict).handOvers(h, r); overs < leastSeen {
			return false
		}
	}
	return grants >= r.leastGrants()
}

// leastGrants is the min number of grants in a run.
func (r *run) leastGrants() int { return int(r.cfg.length.Seconds()) * 10 }

func (r *run) end(ctx context.Context, progress io.Writer) (*verdict, error) {
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
	fmt.Fprintf(progress, "%s: %d grants, %d violations\n", r.lib.Name, v.grants, v.total())
	return v, nil
}

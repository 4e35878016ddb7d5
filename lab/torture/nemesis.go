package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"
)

// nemesis executes the schedule.
type nemesis struct {
	crew  *crew
	world *world
	log   io.Writer      // for faults that went wrong
	diary io.Writer      // for all
	eyes  *eyes          // nil if there is nothing to see
	looks sync.WaitGroup // looks after kills; joined by run

	mu        sync.Mutex // guards the fields below and the faults
	faults    []*fault
	elections []span // times in which servers became primaries or ceased to be
}

// fault is a strike that happened. While it lasts, To is the end of all time.
type fault struct {
	strike
	span
	over time.Time // the time of day at To
	err  error

	roles map[int]role // of a kill: the role of the dead for each key; nil if not known yet
}

func (f fault) String() string {
	s := fmt.Sprintf("%s, from %.6f to %.6f", f.strike, float64(f.From)/1e9, float64(f.To)/1e9)
	if f.roles != nil {
		s += fmt.Sprint(", was ", f.roles)
	}
	if f.err != nil {
		s += ": " + f.err.Error()
	}
	return s
}

// run returns when all faults are over. If ctx ends it returns when the faults
// that have begun are over.
func (n *nemesis) run(ctx context.Context, schedule []strike) {
	began := time.Now()
	var both sync.WaitGroup
	for lane := range lanes {
		both.Go(func() {
			for _, s := range schedule {
				if kinds[s.Kind].lane != lane {
					continue
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(began.Add(s.At))):
				}
				n.strike(context.WithoutCancel(ctx), s)
			}
		})
	}
	both.Wait()
	n.looks.Wait()
}

// watch records elections until ctx ends, because a server that is slow for
// another reason may be taken for dead.
func (n *nemesis) watch(ctx context.Context) {
	from, before := now(), n.world.primaries()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
		at, primaries := now(), n.world.primaries()
		if primaries != before {
			n.mu.Lock()
			n.elections = append(n.elections, span{from, now()})
			n.mu.Unlock()
			fmt.Fprintf(n.diary, "election: %s, from %.6f to %.6f\n", primaries, float64(from)/1e9, float64(now())/1e9)
		}
		from, before = at, primaries
	}
}

func (n *nemesis) strike(ctx context.Context, s strike) {
	s.Proc = n.target(ctx, s)
	victim := n.crew.at(s.Proc).cmd.Process.Pid
	f := &fault{strike: s, span: span{now(), math.MaxInt64}}
	n.mu.Lock()
	n.faults = append(n.faults, f)
	n.mu.Unlock()
	err := kinds[s.Kind].do(ctx, n, s)
	if s.Kind == "kill" && n.eyes != nil {
		n.looks.Go(func() { n.look(ctx, f, victim) })
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f.To, f.over, f.err = now(), time.Now(), err
	fmt.Fprintln(n.diary, *f)
	if err != nil {
		fmt.Fprintln(n.log, *f)
	}
}

// look finds the role of the process that f has killed for each key.
func (n *nemesis) look(ctx context.Context, f *fault, pid int) {
	roles := n.eyes.roles(ctx, pid, n.crew.cfg.keys)
	n.mu.Lock()
	defer n.mu.Unlock()
	f.roles = roles
	fmt.Fprintln(n.diary, "seen:", *f)
}

// tell sends a command to a server. It does not wait long, because another
// fault may have stopped the server.
func (n *nemesis) tell(ctx context.Context, s strike, args ...any) error {
	srv, err := n.world.server(s.Server)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return srv.Do(ctx, args...).Err()
}

// elected returns the elections so far.
func (n *nemesis) elected() []span {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.elections)
}

// happened returns the faults so far.
func (n *nemesis) happened() (faults []fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.faults {
		faults = append(faults, *f)
	}
	return faults
}

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/judge"
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
	faults    []*judge.Fault
	elections []judge.Span // times in which servers became primaries or ceased to be
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
	from, before := judge.Now(), n.world.primaries()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
		at, primaries := judge.Now(), n.world.primaries()
		if primaries != before {
			n.mu.Lock()
			n.elections = append(n.elections, judge.Span{From: from, To: judge.Now()})
			n.mu.Unlock()
			fmt.Fprintf(n.diary, "election: %s, from %.6f to %.6f\n", primaries,
				float64(from)/1e9, float64(judge.Now())/1e9)
		}
		from, before = at, primaries
	}
}

func (n *nemesis) strike(ctx context.Context, s strike) {
	s.Proc = n.target(ctx, s)
	victim := n.crew.at(s.Proc).Pid()
	k := kinds[s.Kind]
	f := &judge.Fault{
		Kind: s.Kind, Text: s.String(), TTL: n.crew.cfg.ttl(s.Proc),
		Span:    judge.Span{From: judge.Now(), To: math.MaxInt64},
		Forgets: slices.Contains(k.forgets, n.world.topology), AtOnce: k.atOnce,
	}
	n.mu.Lock()
	n.faults = append(n.faults, f)
	n.mu.Unlock()
	err := k.do(ctx, n, s)
	if s.Kind == "kill" && n.eyes != nil {
		n.looks.Go(func() { n.look(ctx, f, victim) })
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f.To, f.Over, f.Err = judge.Now(), time.Now(), err
	fmt.Fprintln(n.diary, *f)
	if err != nil {
		fmt.Fprintln(n.log, *f)
	}
}

// look finds the role of the process that f has killed for each key.
func (n *nemesis) look(ctx context.Context, f *judge.Fault, pid int) {
	roles := n.eyes.roles(ctx, pid, n.crew.cfg.keys)
	n.mu.Lock()
	defer n.mu.Unlock()
	f.Roles = roles
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
func (n *nemesis) elected() []judge.Span {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.elections)
}

// happened returns the faults so far.
func (n *nemesis) happened() (faults []judge.Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.faults {
		faults = append(faults, *f)
	}
	return faults
}

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

// nemesis carries the schedule out.
type nemesis struct {
	crew  *crew
	world *world
	log   io.Writer // for faults that went wrong
	diary io.Writer // for all

	mu     sync.Mutex // guards faults, and what they point to
	faults []*fault
}

// fault is a strike that happened. While it does, To is the end of all time.
type fault struct {
	strike
	span
	over time.Time // the time of day at To
	err  error
}

func (f fault) String() string {
	s := fmt.Sprintf("%s, from %.6f to %.6f", f.strike, float64(f.From)/1e9, float64(f.To)/1e9)
	if f.err != nil {
		s += ": " + f.err.Error()
	}
	return s
}

// run ends when all is done, or when ctx ends and what was begun is over.
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
}

func (n *nemesis) strike(ctx context.Context, s strike) {
	f := &fault{strike: s, span: span{now(), math.MaxInt64}}
	n.mu.Lock()
	n.faults = append(n.faults, f)
	n.mu.Unlock()
	err := kinds[s.Kind].do(ctx, n, s)
	n.mu.Lock()
	defer n.mu.Unlock()
	f.To, f.over, f.err = now(), time.Now(), err
	fmt.Fprintln(n.diary, *f)
	if err != nil {
		fmt.Fprintln(n.log, *f)
	}
}

// tell sends a command to a server, for which it does not wait long: another fault may have stopped it.
func (n *nemesis) tell(ctx context.Context, s strike, args ...any) error {
	srv, err := n.world.server(s.Server)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return srv.Do(ctx, args...).Err()
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

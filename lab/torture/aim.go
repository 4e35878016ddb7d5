package main

import (
	"context"
	"slices"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/judge"
)

// The workers that a fault may be aimed at. A key that was handed over lasts
// only as long as the offer until its first renewal. So only the death of a
// veteran, which has renewed its lease, surely costs a whole TTL.
const (
	anybody = "anybody" // the worker that the seed has drawn
	veteran = "veteran" // a worker that has held one lease for more than 2/5 of its TTL
)

var aims = []string{anybody, string(judge.Holder), string(judge.Waiter), veteran}

// aimed are the faults that hit one worker itself, not its network.
var aimed = []string{"kill", "quit", "stop"}

// target returns the worker for a strike. That is the worker that was drawn,
// unless the strike is aimed at another that is found in time. It blocks for at
// most veteranSearch.
func (n *nemesis) target(ctx context.Context, s strike) int {
	if n.eyes == nil || !slices.Contains(aimed, s.Kind) {
		return s.Proc
	}
	key := s.Server % n.crew.cfg.keys
	pid := 0
	switch s.Aim {
	case string(judge.Holder):
		pid = n.eyes.state(ctx, key).Holder.PID
	case string(judge.Waiter):
		if waiters := n.eyes.state(ctx, key).Waiters; len(waiters) > 0 {
			pid = waiters[0].Holder.PID
		}
	case veteran:
		pid = n.eyes.veteran(ctx, n.crew)
	}
	if proc, ok := n.crew.place(pid); ok {
		return proc
	}
	return s.Proc
}

// veteranSearch is the max time for which the nemesis looks for a veteran.
const veteranSearch = time.Second

// veteran returns the process of the first lease that gets old enough, or 0.
func (e *eyes) veteran(ctx context.Context, c *crew) int {
	type lease struct {
		owner string
		since time.Time
	}
	leases := make([]lease, c.cfg.keys)
	for end := time.Now().Add(veteranSearch); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for key := range leases {
			s := e.state(ctx, key)
			if s.Owner != leases[key].owner {
				leases[key] = lease{s.Owner, time.Now()}
			}
			if proc, ok := c.place(s.Holder.PID); ok && isOld(s, c.cfg.ttl(proc), leases[key].since) {
				return s.Holder.PID
			}
		}
	}
	return 0
}

func isOld(s guard.KeyState, ttl time.Duration, since time.Time) bool {
	return s.Held && time.Since(since) > ttl*2/5
}

// place returns the place of the worker with that process id.
func (c *crew) place(pid int) (proc int, ok bool) {
	for proc := range c.cfg.procs {
		if c.at(proc).Pid() == pid {
			return proc, true
		}
	}
	return 0, false
}

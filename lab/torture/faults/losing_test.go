package faults

import (
	"context"
	"errors"
	"flag"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/locker/redislocker"
)

var losses = flag.Int("losses", 1, "how many failovers the tests of Fault52 make for each TTL")

// Failovers that lose the first renewal of a lease that begins short. The
// replicas have the key as it was handed over.

func TestFault52UnderSentinel(t *testing.T) {
	begin(t)
	loseRenewals(t, func(t *testing.T) *losing {
		t.Helper()
		s := redistest.StartSentinel(t)
		for _, watch := range s.Sentinels {
			_ = watch.Do(t.Context(), "sentinel", "set", redisproc.SentinelName, "down-after-milliseconds", watched)
		}
		return &losing{to: rig.Sentinels + strings.Join(s.Addrs(), ","), find: func() (*redisproc.Server,
			[]*redisproc.Server, error,
		) {
			primary, err := s.Primary()
			return primary, s.Nodes, err
		}}
	})
}

func TestFault52InACluster(t *testing.T) {
	begin(t)
	loseRenewals(t, func(t *testing.T) *losing {
		t.Helper()
		c := startCluster(t, true)
		for _, n := range c.Nodes {
			_ = n.Do(t.Context(), "config", "set", "cluster-node-timeout", watched)
		}
		return &losing{to: rig.Cluster + strings.Join(c.Addrs(), ","), find: func() (*redisproc.Server,
			[]*redisproc.Server, error,
		) {
			slot, err := c.Slot(lock(key))
			if err != nil {
				return nil, nil, err
			}
			primary, err := c.Primary(slot)
			return primary, c.Nodes, err
		}}
	})
}

// watched is how many ms a server may be silent. A busy machine needs more than
// a second.
const watched = "2500"

// losing is a primary that can be cut off from its replicas.
type losing struct {
	to string // as rig.Connect takes it
	// find returns the primary, and all servers that may be its replicas.
	find func() (primary *redisproc.Server, all []*redisproc.Server, err error)
}

// left is how long the key lasts on a server.
func left(ctx context.Context, s *redisproc.Server) time.Duration {
	ms, _ := s.Do(ctx, "pttl", lock(key)).Int()
	return time.Duration(ms) * time.Millisecond
}

// loseRenewals makes the failovers, some at a time, because they wait rather
// than compute.
func loseRenewals(t *testing.T, start func(t *testing.T) *losing) {
	t.Helper()
	var rounds atomic.Int64
	for _, ttl := range []time.Duration{10 * time.Second, 30 * time.Second} {
		const together = 3
		for n := 0; n < *losses; n += together {
			var all sync.WaitGroup
			for range min(together, *losses-n) {
				p := start(t)
				all.Go(func() {
					if p.loseRenewal(t, ttl) {
						rounds.Add(1)
					}
				})
			}
			all.Wait()
		}
	}
	keeps(t, "%d failovers that lost the first renewal of a key that was handed over, with WithReplicas: nobody "+
		"else came in", rounds.Load())
}

// loseRenewal hands the key over, loses its first renewal in a failover, and
// lets another process wait for the key. It reports false if the machine was too
// busy for that: no renewal was lost, or two.
func (p *losing) loseRenewal(t *testing.T, ttl time.Duration) bool {
	t.Helper()
	open := func(o guard.Observer, opts ...redislocker.Option) *guard.Guard {
		rdb := rig.Connect(p.to)
		t.Cleanup(func() { _ = rdb.Close() })
		return newGuardOn(t, redislocker.New(rdb, opts...),
			guard.WithTTL(ttl), guard.WithMaxWait(2*ttl), guard.WithMaxHold(0), guard.WithObserver(o))
	}
	confirmed := redislocker.WithReplicas(1, time.Second)
	count := &renewed{}
	before, holder := open(&renewed{}, confirmed), open(count, confirmed)
	after := open(&renewed{}) // nobody follows the new primary
	ctx := t.Context()
	lease, primary, err := p.handOver(ctx, before, holder, count)
	for err == nil && count.Load() == 0 {
		time.Sleep(time.Millisecond)
		err = lease.Err()
	}
	if lease != nil {
		defer func() { _ = lease.Release(ctx) }()
	}
	if err != nil {
		t.Log(err)
		return false
	}
	primary.Kill()
	killed := time.Now()
	if n := count.Load(); n > 1 {
		t.Logf("%d renewals were lost", n)
		return false
	}
	var over atomic.Bool
	end := time.AfterFunc(ttl+5*time.Second, func() { over.Store(true); _ = lease.Release(ctx) })
	defer end.Stop()
	next, err := after.Acquire(ctx, key)
	for err != nil && time.Since(killed) < 3*ttl { // the servers have no primary
		next, err = after.Acquire(ctx, key)
	}
	took := time.Since(killed).Round(time.Millisecond)
	switch {
	case err != nil:
		t.Error(err)
		return false
	case !over.Load() && lease.Err() == nil:
		t.Errorf("TTL %v: another process had the key %v after the primary had died, while the holder relied on it",
			ttl, took)
	}
	t.Logf("TTL %v: the next turn came %v after the primary had died", ttl, took)
	_ = next.Release(ctx)
	return true
}

// offered is how long the key lasts at most that was handed over and not
// renewed.
const offered = 5 * time.Second

// handOver hands the key over to the holder, and cuts its primary off before the
// first renewal.
func (p *losing) handOver(ctx context.Context, before, holder *guard.Guard, count *renewed) (
	*guard.Lease, *redisproc.Server, error,
) {
	for range 10 {
		primary, all, err := p.find()
		if err != nil {
			return nil, nil, err
		}
		first, err := before.Acquire(ctx, key)
		if err != nil {
			continue // a busy machine
		}
		for _, s := range all { // a link that is made anew is refused
			_ = s.Do(ctx, "config", "set", "masteruser", "nobody", "masterauth", "x")
		}
		var lease *guard.Lease
		var waits sync.WaitGroup
		waits.Go(func() { lease, err = holder.Acquire(ctx, key) })
		time.Sleep(700 * time.Millisecond) // it is queued then, and its look is done
		count.Store(0)
		_ = first.Release(ctx)
		if waits.Wait(); err != nil {
			continue
		}
		if d := left(ctx, primary); d > 0 && d <= offered {
			err := primary.Do(ctx, "client", "kill", "type", "replica").Err()
			if err == nil && left(ctx, primary) > offered {
				err = errors.New("the machine is too busy to lose a renewal")
			}
			return lease, primary, err
		}
		_ = lease.Release(ctx) // a look was faster than the message, and has found the key
	}
	return nil, nil, errors.New("the key is not handed over")
}

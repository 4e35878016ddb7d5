package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Servers that are far away. A connection opens with three round trips, as with
// TLS, before the first request arrives.

const (
	opening   = 3
	firstTurn = 3 * time.Second // max time to a newcomer's turn, on a machine that is not busy
)

// Its distances are parallel, inside the one subtest that waits for them.
func TestFault41AFarServerGivesItsKeys(t *testing.T) {
	begin(t)
	var mu sync.Mutex // guards did
	did := map[time.Duration]string{}
	distances := []time.Duration{
		100 * time.Millisecond, 175 * time.Millisecond, 250 * time.Millisecond,
		400 * time.Millisecond,
	}
	t.Run("at", func(t *testing.T) {
		for _, trip := range distances {
			t.Run(trip.String(), func(t *testing.T) {
				t.Parallel()
				n := newNetwork(t)
				n.Far(redistest.Distance{RoundTrip: trip, Opening: opening})
				free, hot := newcomers(t, n, "free"), newcomers(t, n, "hot")
				mu.Lock()
				defer mu.Unlock()
				did[trip] = fmt.Sprintf("%v: %v and %v", trip, free, hot)
			})
		}
	})
	var all []string
	for _, trip := range distances {
		all = append(all, did[trip])
	}
	keeps(t, "the last of 4 new processes had its first turn, with a free key and with a hot one, after: %s",
		strings.Join(all, "; "))
}

// newcomers lets four processes use a far server, each with a key of its own.
// It returns when the last had its first turn. Four callers of another process,
// which is near, hand a hot key around.
func newcomers(t *testing.T, n *network, kind string) time.Duration {
	t.Helper()
	const count = 4
	ctx, stop := context.WithCancel(t.Context())
	var busy, come sync.WaitGroup
	if kind == "hot" {
		near := []*guard.Guard{on(t, n.server.Addr), on(t, n.server.Addr)}
		for i := range count * len(near) {
			busy.Go(func() { // ends with stop
				for ctx.Err() == nil {
					_ = near[i%len(near)].Do(ctx, fmt.Sprint(kind, i/len(near)), func(context.Context) error {
						time.Sleep(2 * time.Millisecond)
						return nil
					})
				}
			})
		}
	}
	turns := make([]time.Duration, count)
	for i := range count {
		g := on(t, n.Addr)
		come.Go(func() { turns[i] = turnWithin(t, g, fmt.Sprint(kind, i), firstTurn+slow) })
	}
	come.Wait()
	stop()
	busy.Wait()
	return slices.Max(turns).Round(10 * time.Millisecond)
}

// turnWithin returns the time until a turn began, and fails t if that was too
// long.
func turnWithin(t *testing.T, g *guard.Guard, key string, limit time.Duration) (began time.Duration) {
	t.Helper()
	start := time.Now()
	err := g.Do(t.Context(), key, func(context.Context) error { began = time.Since(start); return nil })
	if err != nil && !errors.Is(err, guard.ErrLeaseLost) || began > limit && timed(t, start) {
		t.Errorf("%s: a turn after %v: %v", key, began, err)
	}
	return began
}

func TestFault41ATryOverAColdConnectionIsBounded(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	n.Far(redistest.Distance{RoundTrip: 250 * time.Millisecond, Opening: opening})
	var g *guard.Guard
	var cold time.Duration
	judged(t, func() string {
		g = on(t, n.Addr, guard.WithMaxWait(0))
		start := time.Now()
		l, err := g.TryAcquire(t.Context(), key)
		took(t, "TryAcquire", start, 500*time.Millisecond+slow)
		if l != nil {
			mustRelease(t, l)
		}
		start = time.Now()
		err2 := g.Do(t.Context(), key, nop)
		cold = took(t, "Do with a MaxWait of 0", start, 500*time.Millisecond+slow)
		if !errors.Is(err, guard.ErrUnavailable) || !errors.Is(err2, guard.ErrUnavailable) {
			return fmt.Sprintf("%v and %v, want ErrUnavailable twice", err, err2)
		}
		return ""
	})
	testguard.Eventually(t, "the connection is there, and the key", func() bool {
		l, err := g.TryAcquire(t.Context(), key)
		if err != nil {
			return false
		}
		mustRelease(t, l)
		return true
	})
	keeps(t, "`TryAcquire` and a `MaxWait` of 0 at first: `ErrUnavailable` after %v, and the key once the "+
		"connection is there", cold)
}

func TestFault41ALineThatJittersGivesItsKeys(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	const jitter = 300 * time.Millisecond
	n.Far(redistest.Distance{RoundTrip: 50 * time.Millisecond, Jitter: jitter, Opening: 1})
	const ttl = 9 * time.Second // after a first try that was late, the lease begins as an offer of a third
	var renewals renewed
	l := acquire(t, on(t, n.Addr, guard.WithTTL(ttl), guard.WithMaxWait(long), guard.WithObserver(&renewals)), "held")
	free, hot := newcomers(t, n, "free"), newcomers(t, n, "hot")
	renewals.await(t, l, "the jitter")
	mustRelease(t, l)
	keeps(t, "with %v of jitter in each direction: %v and %v, and no lease of %v is lost", jitter, free, hot, ttl)
}

// A newcomer finds the primary or the nodes first, and those are round trips of
// their own. So it may take longer than with one server.
func TestFault41FarSentinelsAndClustersGiveTheirKeys(t *testing.T) {
	begin(t)
	s, nodes := redistest.StartSentinel(t), redistest.StartCluster(t)
	var mu sync.Mutex // guards did
	var did []string
	t.Run("at", func(t *testing.T) {
		for _, far := range []redistest.Distance{
			{RoundTrip: 100 * time.Millisecond, Opening: opening}, // the first answer comes as a try ends
			{RoundTrip: 250 * time.Millisecond, Opening: 1},
			{RoundTrip: 400 * time.Millisecond, Opening: 1},
			{RoundTrip: 400 * time.Millisecond, Opening: opening},
		} {
			at := far.RoundTrip.String()
			if far.Opening > 1 {
				at += " with TLS"
			}
			first := func(t *testing.T, where string, l guard.Locker) {
				t.Helper()
				g := newGuardOn(t, l)
				d := turnWithin(t, g, key+at, time.Duration(far.Opening+1)*firstTurn+slow)
				mu.Lock()
				defer mu.Unlock()
				did = append(did, fmt.Sprintf("%s at %s: %v", where, at, d.Round(10*time.Millisecond)))
			}
			t.Run(at, func(t *testing.T) {
				t.Parallel()
				o := &redis.FailoverOptions{
					MasterName: redisproc.SentinelName, SentinelAddrs: s.Addrs(), Dialer: far.Dial,
				}
				rdb := redis.NewFailoverClient(o)
				t.Cleanup(func() { _ = rdb.Close() })
				c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}, Dialer: far.Dial})
				t.Cleanup(func() { _ = c.Close() })
				first(t, "a client of Sentinel", redislocker.New(rdb))
				first(t, "`WithSentinel`", redislocker.New(nil, redislocker.WithSentinel(o)))
				first(t, "a Cluster", redislocker.New(c))
			})
		}
	})
	slices.Sort(did)
	keeps(t, "the first turn with a free key: %s", strings.Join(did, "; "))
}

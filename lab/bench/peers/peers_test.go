package peers

import (
	"context"
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

const (
	key  = "k"
	poll = 500*time.Millisecond + rig.Slow // how long a waiter may sleep on a lost message, and more
)

// result is a rig.Result.
type result struct {
	kept rig.Verdict
	does string
}

const (
	yes   = rig.Yes
	no    = rig.No
	parts = rig.Parts
	none  = rig.None
)

// rows are the rows of docs/faults.md in which the peers are tried.
var rows = map[int]func(t *testing.T, lib *libs.Library) result{
	1: peerLostReply, 2: peerLateReply, 3: peerAbandoned, 4: peerForgets, 5: peerMove, 6: peerTrouble, 7: peerRefused,
	8: peerLostFailover, 9: peerSentinel, 10: peerCluster, 11: peerStopped, 13: peerClocks,
	14: peerAhead, 15: peerBehind,
	16: peerOneWay, 17: peerCutOff, 18: peerSlow, 19: peerPaused, 20: peerForeign, 21: peerRace, 22: peerLostRelease,
	23: peerMessage, 25: peerLeaves, 26: peerHerd, 27: peerEvicted, 28: peerMemory, 29: peerDeleted, 30: peerRestart,
	32: peerKeys, 33: peerGone, 36: peerKilled, 37: peerTwice, 38: peerTTL, 40: peerClose,
}

// short are the rows that show that this package works.
var short = []int{20, 21, 37}

func TestRowsAsCompetitorsDoThem(t *testing.T) {
	t.Parallel()
	chosen := short
	if *tryAll {
		chosen = slices.Sorted(maps.Keys(rows))
	}
	for _, n := range chosen {
		for _, lib := range libs.All()[1:] {
			t.Run(fmt.Sprintf("Fault%02d/%s", n, lib.Name), func(t *testing.T) {
				t.Parallel()
				pprof.SetGoroutineLabels(pprof.WithLabels(context.WithoutCancel(t.Context()),
					pprof.Labels(rig.Label, t.Name())))
				note(t, n, lib, tried(t, lib, rows[n]))
			})
		}
	}
}

// seen are the results of this run.
var seen = struct {
	sync.Mutex // guards by
	by         rig.Results
}{by: rig.Results{}}

func note(t *testing.T, n int, lib *libs.Library, r result) {
	t.Helper()
	t.Logf("%s: %s", r.kept, r.does)
	if r.does == "" {
		t.Error("nothing was seen")
	}
	seen.Lock()
	defer seen.Unlock()
	if seen.by[n] == nil {
		seen.by[n] = map[string]rig.Result{}
	}
	seen.by[n][lib.Name] = rig.Result{Kept: r.kept, Does: r.does}
}

// peer opens a library on a server, with renewal unless the setup says
// otherwise.
func peer(t *testing.T, lib *libs.Library, s libs.Setup) libs.Locker {
	t.Helper()
	l, err := lib.Open(s)
	if err != nil {
		t.Fatalf("%s: %v", lib.Name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		_ = l.Close(ctx)
	})
	return l
}

func peerOn(t *testing.T, lib *libs.Library, addr string, ttl time.Duration) libs.Locker {
	t.Helper()
	return peer(t, lib, libs.Setup{Addrs: []string{addr}, TTL: ttl})
}

// network has a server, a client with a direct connection, and a network to the
// server that can be made to fail.
type network struct {
	*redistest.Proxy
	server *redistest.Server
	direct *redis.Client
}

func peerNetwork(t *testing.T, args ...string) *network {
	t.Helper()
	s := redistest.Start(t, args...)
	return &network{Proxy: redistest.NewProxy(t, s.Addr), server: s, direct: redistest.Client(t, s.Addr)}
}

// partition cuts off the clients of the proxy without a sign, or ends that.
// Bytes that were swallowed are then lost, and so are their connections.
func (n *network) partition(cut bool) {
	n.DropUp(cut)
	n.DropDown(cut)
	if !cut {
		n.CutAll()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, rdb *redis.Client, args ...any) {
	t.Helper()
	if err := rdb.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// stuck is the value with which a library panics in a test if it does not get a
// free key.
type stuck struct{ err error }

// take acquires a key that is free, or will be soon, for a test that goes on
// from there. A library that gives up may try again.
func take(t *testing.T, l libs.Locker, key string) libs.Lease {
	t.Helper()
	for end := time.Now().Add(rig.Long); ; {
		held, err := l.Acquire(t.Context(), key, 4*time.Second)
		if err == nil {
			return held
		}
		if time.Now().After(end) {
			panic(stuck{err})
		}
	}
}

// tried runs a row with a library.
func tried(t *testing.T, lib *libs.Library, row func(*testing.T, *libs.Library) result) (r result) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			s, is := p.(stuck)
			if !is {
				panic(p)
			}
			r = result{no, fmt.Sprintf("it did not get a free key within %v: %s", rig.Long, brief(s.err))}
		}
	}()
	return row(t, lib)
}

// warmUp lets a library connect and load its scripts.
func warmUp(t *testing.T, l libs.Locker) {
	t.Helper()
	_ = take(t, l, "warm").Release(t.Context())
}

// locked reports whether the server has the library's lock on key.
func locked(t *testing.T, rdb redis.UniversalClient, lib *libs.Library, key string) bool {
	t.Helper()
	return rdb.Exists(t.Context(), lib.Keys(key)...).Val() > 0
}

func ttlOf(t *testing.T, rdb redis.UniversalClient, lib *libs.Library, key string) time.Duration {
	t.Helper()
	return rdb.PTTL(t.Context(), lib.Keys(key)[0]).Val()
}

// told waits until the holder is told that its lock is lost.
func told(l libs.Lease, limit time.Duration) bool {
	select {
	case <-l.Lost():
		return true
	case <-time.After(limit):
		return false
	}
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// kept returns yes if the condition is true.
func kept(so bool) rig.Verdict {
	if so {
		return yes
	}
	return no
}

// brief returns the text of an error in a form for a table.
func brief(err error) string {
	if err == nil {
		return "no error"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.NewReplacer("|", "/", "`", "'").Replace(text)
	if len(text) > 100 {
		text = text[:100] + "..."
	}
	return "`" + text + "`"
}

// Package libs puts this module's guard and the Go libraries that compete with
// it behind one small interface. Each is set up as a careful user would do it.
// So one test can examine all of them in the same way.
package libs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/contest"
)

// Library is one lock library and its properties.
type Library struct {
	Name string

	// the library renews a lease; otherwise a goroutine of the adapter does, as
	// the library's docs tell users
	Renews bool
	Tells  bool // the library tells the holder of a loss; otherwise that goroutine does
	Tokens bool // leases have fencing tokens

	// Topologies lists the topologies that the library is made for.
	Topologies []Topology

	// Keys returns the keys in Redis of which a lock on key has one.
	Keys func(key string) []string

	open func(Setup) (Locker, error)
}

// Topology is the arrangement of the servers of a [Setup].
type Topology string

// The topologies.
const (
	Single   Topology = "single"   // one server
	Sentinel Topology = "sentinel" // a primary and replicas behind Sentinels
	Cluster  Topology = "cluster"  // Redis Cluster
	Redlock  Topology = "redlock"  // independent servers and a majority
)

// Redises are the topologies of Redis.
var Redises = []Topology{Single, Sentinel, Cluster, Redlock}

// Topologies lists all topologies.
var Topologies = slices.Concat(Redises, Stores)

// Tries is a way in which a library tries again while it waits. The ways differ
// for the competitors only.
type Tries int

// The ways.
const (
	Often      Tries = iota // every 5 to 25 ms, or a quarter of the TTL if a message wakes it
	Documented              // as in the library's own docs
	Fastest                 // the best setting found, for benchmarks
)

// Setup holds the addresses of the servers and the settings of leases.
type Setup struct {
	Topology Topology      // "" means Single
	Addrs    []string      // of the server; the Sentinels; seeds of the cluster; the independent servers
	Master   string        // the name of the primary in the Sentinels
	TTL      time.Duration // of a lease; 0 means 10 s

	// Tries is the way in which a library tries for a key that another holder
	// has.
	Tries Tries

	// Unwatched turns off the watch of a lease's deadline between renewals. The
	// libraries' examples do not have it either.
	Unwatched bool

	// NoRenewal turns renewals off, so that a lease ends with its TTL. It has
	// no effect on rueidislock, which always renews.
	NoRenewal bool

	// Dial makes the connections of the library and of its adapter. nil means
	// net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Replicas is how many replicas have each acquire of guard; 0: it waits for none.
	Replicas int
	// RestartDelay is the time for which a restarted server of [Redlock] does not
	// count. It is for guard only. 0 means guard's default.
	RestartDelay time.Duration

	// Wrap puts a locker between a guard and its store. It is for guard only.
	// nil means none.
	Wrap func(guard.Locker) guard.Locker

	// Options are further options of a guard. They are for guard only.
	Options []guard.Option
}

// What a library is to the workload of package contest.
type (
	// Locker is every library.
	Locker = contest.Locker
	// Moded is a Locker with shared leases, permits and several keys.
	Moded = contest.Moded
	// Recording is a Locker with results.
	Recording = contest.Recording
	// Lease is one hold of a key.
	Lease = contest.Lease
	// Reentrant is a Lease inside which another begins.
	Reentrant = contest.Reentrant
)

// ErrNoToken means that a library has no fencing tokens.
var ErrNoToken = contest.ErrNoToken

var all = []*Library{Guard, Redislock, Redsync, Rueidislock}

// All returns all libraries, guard first.
func All() []*Library { return slices.Clone(all) }

// Named returns the libraries of a comma-separated list of names.
func Named(list string) (chosen []*Library, err error) {
next:
	for name := range strings.SplitSeq(list, ",") {
		for _, l := range all {
			if l.Name == name {
				chosen = append(chosen, l)
				continue next
			}
		}
		return nil, fmt.Errorf("no library %q; there are guard, redislock, redsync and rueidislock", name)
	}
	return chosen, nil
}

// Offers reports whether the library is made for t.
func (l *Library) Offers(t Topology) bool {
	return slices.Contains(l.Topologies, t) || t.Runs() && l == Guard
}

// Open sets the library up. It may need the servers for that, as rueidislock
// does.
func (l *Library) Open(s Setup) (Locker, error) {
	if s.Topology == "" {
		s.Topology = Single
	}
	if s.TTL == 0 {
		s.TTL = 10 * time.Second
	}
	if s.Dial == nil {
		s.Dial = new(net.Dialer).DialContext
	}
	switch {
	case !l.Offers(s.Topology):
		return nil, fmt.Errorf("%s is not made for the topology %s", l.Name, s.Topology)
	case len(s.Addrs) == 0:
		return nil, errors.New("no address of a server")
	}
	return l.open(s)
}

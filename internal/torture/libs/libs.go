// Package libs puts this module's guard and the Go libraries that compete with
// it behind one small interface, each set up as a careful user would, so that
// one test can put the same questions to all of them.
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
)

// Library is one lock library, and what it does by itself.
type Library struct {
	Name string

	// a lease is renewed by the library; else a goroutine of the adapter does
	// that, as its docs tell users to
	Renews bool
	Tells  bool // the holder is told of a loss by the library; else by what that goroutine finds
	Tokens bool // leases have fencing tokens

	// Topologies are those that the library is made for.
	Topologies []Topology

	// Keys returns the keys in Redis that a lock on key lives in.
	Keys func(key string) []string

	open func(Setup) (Locker, error)
}

// Topology is how the servers of a [Setup] belong together.
type Topology string

// The topologies.
const (
	Single   Topology = "single"   // one server
	Sentinel Topology = "sentinel" // a primary and replicas behind Sentinels
	Cluster  Topology = "cluster"  // Redis Cluster
	Redlock  Topology = "redlock"  // independent servers, of which a majority counts
)

// Topologies are all of them.
var Topologies = []Topology{Single, Sentinel, Cluster, Redlock}

// Tries is one of the ways to set up how a library waits. They differ for the
// competitors only.
type Tries int

// The ways.
const (
	Often      Tries = iota // every 5 to 25 ms, or a quarter of the TTL where a message wakes it
	Documented              // as the library's own docs have it
	Fastest                 // the best setting found, for benchmarks
)

// Setup says where the servers are and how long a lease lasts.
type Setup struct {
	Topology Topology      // "": Single
	Addrs    []string      // of the server; the Sentinels; seeds of the cluster; the independent servers
	Master   string        // what the Sentinels call the primary
	TTL      time.Duration // of a lease, 0: 10 s

	// Tries is how a library looks for a key that somebody else has.
	Tries Tries

	// Unwatched takes away what looks at a lease's deadline between renewals,
	// which the libraries' examples do not have either.
	Unwatched bool

	// NoRenewal leaves a lease to its TTL, where the library lets the user
	// choose: rueidislock renews whatever one does.
	NoRenewal bool

	// Dial makes the connections of the library and of what is around it; nil:
	// net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// HoldOut is how long a server of [Redlock] that has restarted does not
	// count, for guard only; 0: its default.
	HoldOut time.Duration

	// Wrap puts something between a guard and its store, for guard only; nil:
	// nothing.
	Wrap func(guard.Locker) guard.Locker

	// Options are further options of the guard, for guard only.
	Options []guard.Option
}

// Locker is a library at work. Its methods are safe for concurrent use.
type Locker interface {
	// Acquire waits for key for at most wait, by the library's own means, and
	// tries once if wait is 0. The end of ctx ends the wait, never the lease.
	Acquire(ctx context.Context, key string, wait time.Duration) (Lease, error)

	// Close ends the library's own connections and goroutines, and waits for
	// them as long as the library can, at most until ctx ends.
	Close(ctx context.Context) error
}

// Lease is a lock that somebody holds. Its methods are safe for concurrent use,
// but for a second Release.
type Lease interface {
	// Lost is closed when the holder is told that the lock was lost; it may be
	// closed by Release too.
	Lost() <-chan struct{}

	// Held reports whether the library takes the lock for held now. One that
	// has a clock of its own for that looks at it, so it may know before Lost
	// is closed.
	Held() bool

	// Deadline returns until when the library trusts the lock unless it is
	// renewed, or zero if it does not say.
	Deadline() time.Time

	// Token returns the fencing token, or ErrNoToken.
	Token(ctx context.Context) (uint64, error)

	// Release gives the lock back. It returns nil if the library says that it
	// was held to the end.
	Release(ctx context.Context) error
}

// Reentrant is a Lease of a library in which a holder may take its key again.
type Reentrant interface {
	// Again takes the key of the lease in a call inside it, returns the token
	// of that call, and ends it. The lease is still held.
	Again(ctx context.Context) (token uint64, err error)
}

// ErrNoToken says that a library has no fencing tokens.
var ErrNoToken = errors.New("libs: this library has no fencing tokens")

var all = []*Library{Guard, Redislock, Redsync, Rueidislock}

// All returns all libraries, guard first.
func All() []*Library { return slices.Clone(all) }

// Named returns the libraries of a list of names with commas between them.
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
	return slices.Contains(l.Topologies, t)
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

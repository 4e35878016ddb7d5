package redlock

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

// Option changes one setting of [New].
type Option interface{ apply(*settings) }

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

// settings are kept as they were given; check says what is wrong with them.
type settings struct {
	nodes   []redis.UniversalClient // the caller's
	prefix  string
	limit   time.Duration
	holdOut time.Duration
	nilOpt  bool
}

const (
	defaultLimit   = 200 * time.Millisecond
	defaultHoldOut = time.Minute
)

// WithPrefix sets what the name of every key on every node starts with, as
// redislocker.WithPrefix does. Default "guard".
func WithPrefix(prefix string) Option { return optionFunc(func(s *settings) { s.prefix = prefix }) }

// WithNodeLimit sets how long a node has to answer one request: a node that
// hangs costs nobody more than that. Half of the TTL is the limit where that is
// shorter. It should be some ten round trips, and far below the TTL. Default
// 200 ms.
func WithNodeLimit(d time.Duration) Option { return optionFunc(func(s *settings) { s.limit = d }) }

// WithHoldOut sets for how long a node counts as not answering after it has
// started. It must be the same in every process, and no TTL may be longer: then
// all leases have ended that the node knew before, and its memory may be empty.
// Default 1 minute.
//
// With 0 a node counts as soon as it answers. That is honest only if no restart
// forgets anything, as with "appendonly yes" and "appendfsync always" on a disk
// that keeps what it has confirmed.
func WithHoldOut(d time.Duration) Option { return optionFunc(func(s *settings) { s.holdOut = d }) }

// check returns the first thing that is wrong, as an ErrInvalidOption.
func (s *settings) check() error {
	switch n := len(s.nodes); {
	case s.nilOpt:
		return invalid("an option is nil")
	case n < 3 || n%2 == 0:
		return invalid("%d nodes: give 3, 5 or another odd number, so that a majority survives the "+
			"loss of the others", n)
	case s.limit < time.Millisecond:
		return invalid("the limit of a node is %v: give it a few round trips, at least 1 ms", s.limit)
	case s.holdOut < 0:
		return invalid("the hold-out is negative")
	}
	given := make(map[*redis.Client]int)
	for i, node := range s.nodes {
		if err := checkNode(i, node, given); err != nil {
			return err
		}
	}
	return nil
}

// checkNode sees what can be seen of a client without asking its server: where
// it connects is a matter of its dialer. given are the clients of the nodes
// before it.
func checkNode(i int, node redis.UniversalClient, given map[*redis.Client]int) error {
	if lockerkit.IsNil(node) {
		return invalid("the client of node %d is nil", i+1)
	}
	c, ok := node.(*redis.Client)
	switch {
	case !ok:
		return invalid("node %d is a %T: a node is one server, so give it a *redis.Client", i+1, node)
	case c.Options().Addr == "FailoverClient": // what go-redis calls a Sentinel client
		return invalid("node %d is a Sentinel client: a failover may forget leases, and nobody would see that; "+
			"give it one server", i+1)
	}
	if first := given[c]; first != 0 {
		return invalid("nodes %d and %d are the same client", first, i+1)
	}
	given[c] = i + 1
	return nil
}

func invalid(format string, args ...any) error {
	return lockerkit.Invalid("redlock", format, args...)
}

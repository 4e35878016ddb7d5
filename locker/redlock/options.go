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

// settings are kept as they were given. check validates them.
type settings struct {
	nodes        []redis.UniversalClient // owned by the caller
	prefix       string
	limit        time.Duration
	restartDelay time.Duration
	nilOpt       bool
}

const (
	defaultLimit        = 200 * time.Millisecond
	defaultRestartDelay = time.Minute
)

// WithPrefix sets the prefix of the name of every key on every node, as
// redislocker.WithPrefix does. Default "guard".
func WithPrefix(prefix string) Option { return optionFunc(func(s *settings) { s.prefix = prefix }) }

// WithNodeLimit sets how long a node has to answer one request. A node that
// hangs costs no call more than that. The limit is at most half of the TTL. Set
// it to some ten round trips, and far below the TTL. Default 200 ms.
func WithNodeLimit(d time.Duration) Option { return optionFunc(func(s *settings) { s.limit = d }) }

// WithRestartDelay sets how long a node counts as not answering after it has
// started. It must be the same in every process. No TTL may be longer. Then all
// leases that the node knew before have ended, and its memory may be empty.
// Default 1 minute.
//
// With 0 a node counts as soon as it answers. That is safe only if no restart
// forgets anything. An example is "appendonly yes" and "appendfsync always" on
// a disk that keeps what it has confirmed.
func WithRestartDelay(d time.Duration) Option {
	return optionFunc(func(s *settings) { s.restartDelay = d })
}

// check returns the first problem of the settings, as an ErrInvalidOption.
func (s *settings) check() error {
	switch n := len(s.nodes); {
	case s.nilOpt:
		return invalid("an option is nil")
	case n < 3 || n%2 == 0:
		return invalid("%d nodes: give 3, 5 or another odd number, so that a majority survives the "+
			"loss of the others", n)
	case s.limit < time.Millisecond:
		return invalid("the limit of a node is %v: give it a few round trips, at least 1 ms", s.limit)
	case s.restartDelay < 0:
		return invalid("the restart delay is negative")
	}
	given := make(map[*redis.Client]int)
	for i, node := range s.nodes {
		if err := checkNode(i, node, given); err != nil {
			return err
		}
	}
	return nil
}

// checkNode checks a client without asking its server. It cannot see where the
// client connects, because that is up to the client's dialer. given has the
// clients of the earlier nodes.
func checkNode(i int, node redis.UniversalClient, given map[*redis.Client]int) error {
	if lockerkit.IsNil(node) {
		return invalid("the client of node %d is nil", i+1)
	}
	c, ok := node.(*redis.Client)
	switch {
	case !ok:
		return invalid("node %d is a %T: a node is one server, so give it a *redis.Client", i+1, node)
	case c.Options().Addr == "FailoverClient": // go-redis names a Sentinel client so
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

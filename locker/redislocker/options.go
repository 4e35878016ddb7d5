package redislocker

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisconn"
)

// Option changes one setting of [New].
type Option interface{ apply(*settings) }

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

// settings are kept as they were given; check finds what is wrong.
type settings struct {
	conn   redisconn.Settings
	prefix string
	raw    func(key string) string // of WithKeyNames, or nil
	absent string                  // the last of what was given as nil; "" for nothing

	replicas     int // of WithReplicas
	replicasWait time.Duration
}

// WithPrefix sets the prefix of every name in Redis, before a colon. Lockers
// exclude each other only under the same prefix. It must not be empty, and must
// not have braces or control bytes. Default "guard".
func WithPrefix(prefix string) Option {
	return optionFunc(func(s *settings) { s.prefix = prefix })
}

// WithClient makes the locker use rdb as it is, instead of a small client of
// its own. It is for client types that the locker does not know. It is also for
// connections that need more than the usual. Retries must be off (MaxRetries
// -1) and ContextTimeoutEnabled on. Below go-redis 9.22 its Protocol must be 2,
// because with RESP3 those versions lose messages. rdb should serve nothing
// else. Its logins are a part of the requests, and of connections that have
// died without a word each costs a request. The locker does not close it.
func WithClient(rdb redis.UniversalClient) Option {
	return given("client of WithClient", lockerkit.IsNil(rdb), func(s *settings) { s.conn.AsIs = rdb })
}

// WithHook adds a hook to the locker's own client, for tracing or metrics of
// its requests.
func WithHook(h redis.Hook) Option {
	return given("hook", lockerkit.IsNil(h), func(s *settings) { s.conn.Hooks = append(s.conn.Hooks, h) })
}

// WithSentinel gives the locker a client of its own for Sentinel. It hears of
// every failover (+switch-master). Of the sentinels that answer, the majority
// decides which server is the primary. A single sentinel may be seconds behind
// the others, and the server that it names may still take writes. As long as a
// released lease would still be within its TTL, the locker asks the sentinels
// several times a second. It then sends nothing more over connections to
// another server, and nothing to the new primary for 300 ms. By then the other
// processes have looked too, and left the old primary, which still takes
// writes. So name all sentinels in o, three or more.
//
// o has the options of the caller's client. From there the locker takes how to
// reach and authenticate with sentinels and servers. The client given to [New]
// is not used then, and may be nil.
//
// Without this option a client made by redis.NewFailoverClient works too, but
// does not tell the locker of a failover. The locker then leaves its
// connections every 3 s.
func WithSentinel(o *redis.FailoverOptions) Option {
	return given("pointer of WithSentinel", o == nil, func(s *settings) { s.conn.Sentinel = o })
}

// WithClientName sets the name of the locker's own connections in CLIENT LIST.
// It is printable ASCII without blanks, or "" for no name. Default "guard". If
// the user may not name its connections, they have no name. If the caller's
// client has a ClientName, that is used instead. A client of WithClient keeps
// its own name.
func WithClientName(name string) Option {
	return optionFunc(func(s *settings) { s.conn.Name = name })
}

// given is an option that takes what may be nil by mistake.
func given(what string, isNil bool, set optionFunc) Option {
	return optionFunc(func(s *settings) {
		if set(s); isNil {
			s.absent = what
		}
	})
}

// check returns an ErrInvalidOption for the first wrong setting.
func (s *settings) check() error {
	switch {
	case s.absent != "":
		return invalid("the %s is nil", s.absent)
	case s.prefix == "":
		return invalid("the prefix is empty")
	case strings.ContainsFunc(s.prefix, func(r rune) bool { return r == '{' || r == '}' || r < ' ' || r == 0x7f }):
		return invalid("the prefix has braces or control bytes")
	}
	if err := s.conn.Check(); err != nil {
		return invalid("%v", err)
	}
	return s.checkReplicas()
}

func invalid(format string, args ...any) error {
	return lockerkit.Invalid("redislocker", format, args...)
}

package redislocker

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisnode"
)

// Option changes one setting of [New].
type Option interface{ apply(*settings) }

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

// settings are kept as they were given; check finds what is wrong.
type settings struct {
	rdb    redis.UniversalClient // the caller's
	prefix string
	asIs   redis.UniversalClient // of WithClient
	given  bool                  // WithClient was used, even with nil
	hooks  []redis.Hook
	nilOpt bool

	raw      func(key string) string // of WithKeyNames
	rawGiven bool
	name     string // of WithClientName

	sentinel      *redis.FailoverOptions // of WithSentinel
	sentinelGiven bool

	replicas     int // of WithReplicas
	replicasWait time.Duration

	node redisnode.Node // of WithNode; zero: the locker stands alone
}

// WithNode is for package redlock, whose lockers keep a lease on several
// servers. Nobody else can make a node.
func WithNode(n redisnode.Node) Option {
	return optionFunc(func(s *settings) { s.node = n })
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
// -1) and ContextTimeoutEnabled on. rdb should serve nothing else. The locker
// does not close it.
func WithClient(rdb redis.UniversalClient) Option {
	return optionFunc(func(s *settings) { s.asIs, s.given = rdb, true })
}

// WithHook adds a hook to the locker's own client, for tracing or metrics of
// its requests.
func WithHook(h redis.Hook) Option {
	return optionFunc(func(s *settings) { s.hooks = append(s.hooks, h) })
}

// check returns an ErrInvalidOption for the first wrong setting.
func (s *settings) check() error {
	for _, h := range s.hooks {
		if lockerkit.IsNil(h) {
			return invalid("the hook is nil")
		}
	}
	switch {
	case s.nilOpt:
		return invalid("an option is nil")
	case s.prefix == "":
		return invalid("the prefix is empty")
	case strings.ContainsFunc(s.prefix, func(r rune) bool { return r == '{' || r == '}' || r < ' ' || r == 0x7f }):
		return invalid("the prefix has braces or control bytes")
	case s.rawGiven && s.raw == nil:
		return invalid("the function of WithKeyNames is nil")
	case strings.ContainsFunc(s.name, func(r rune) bool { return r <= ' ' || r > '~' }):
		return invalid("the client name has blanks, or others than printable ASCII characters")
	case s.given && s.sentinelGiven:
		return invalid("WithSentinel and WithClient exclude each other")
	case s.given && lockerkit.IsNil(s.asIs):
		return invalid("the client of WithClient is nil")
	case s.given && len(s.hooks) > 0:
		return invalid("WithHook is for the locker's own client: add the hook to the client of WithClient")
	case s.checkReplicas() != nil:
		return s.checkReplicas()
	case s.given:
		return checkAsIs(s.asIs)
	case s.sentinelGiven:
		return s.checkSentinel()
	case lockerkit.IsNil(s.rdb):
		return invalid("the client is nil")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return lockerkit.Invalid("redislocker", format, args...)
}

package redisconn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

// Settings say which connections to make. They are kept as they were given, and
// Check finds what is wrong.
type Settings struct {
	Client   redis.UniversalClient  // the caller's, which tells how to reach the server
	AsIs     redis.UniversalClient  // to be used as it is, of WithClient; or nil
	Sentinel *redis.FailoverOptions // of WithSentinel; or nil
	Hooks    []redis.Hook
	Name     string // of the connections in CLIENT LIST; "" for none

	// Admit may refuse a node of package redlock; nil admits all. It is given
	// the server's section of INFO on each new connection, or the error
	// instead.
	Admit func(info map[string]string, err error) error
}

// Check returns an error for the first wrong setting, for the user to read. It
// names the settings as the options of package redislocker.
func (s *Settings) Check() error {
	switch {
	case strings.ContainsFunc(s.Name, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the client name has blanks, or others than printable ASCII characters")
	case s.AsIs != nil && s.Sentinel != nil:
		return errors.New("WithSentinel and WithClient exclude each other")
	case s.AsIs != nil && len(s.Hooks) > 0:
		return errors.New("WithHook is for the locker's own client: add the hook to the client of WithClient")
	case s.AsIs != nil:
		return checkAsIs(s.AsIs)
	case s.Sentinel != nil:
		return checkSentinel(s.Sentinel)
	}
	return checkClient(s.Client)
}

// checkClient refuses a client that does not tell how to reach the server.
func checkClient(rdb redis.UniversalClient) error {
	if lockerkit.IsNil(rdb) {
		return errors.New("the client is nil")
	}
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient:
		return nil
	case *redis.Ring:
		return errRing
	}
	return fmt.Errorf("a client of type %T is unknown: pass one made for leases with WithClient", rdb)
}

var errRing = errors.New("a redis.Ring moves keys to other servers when one is down, so two could hold a key: use " +
	"one server, Sentinel or Cluster")

// checkAsIs finds settings of WithClient's client that would break the locker's
// promises. It knows only the client types of go-redis.
func checkAsIs(rdb redis.UniversalClient) error {
	var retries int
	var byContext bool
	switch c := rdb.(type) {
	case *redis.Client:
		retries, byContext = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		retries, byContext = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		return errRing
	default:
		return nil
	}
	switch {
	case retries > 0:
		return errors.New("the client of WithClient retries requests: set its MaxRetries to -1")
	case !byContext:
		return errors.New("the client of WithClient ignores deadlines: set its ContextTimeoutEnabled")
	}
	return nil
}

// checkSentinel checks the options of WithSentinel.
func checkSentinel(o *redis.FailoverOptions) error {
	switch {
	case o.MasterName == "":
		return errors.New("the options of WithSentinel have no MasterName")
	case len(o.SentinelAddrs) == 0:
		return errors.New("the options of WithSentinel have no SentinelAddrs")
	case o.ReplicaOnly:
		return errors.New("the options of WithSentinel are ReplicaOnly: leases are kept by the primary")
	}
	return nil
}

package redislocker

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// checkClient finds settings of WithClient's client that could be better.
// [settings.check] refuses the settings that it must not have at all.
func (s *settings) checkClient(ttl time.Duration) error {
	if !s.conn.GivenAsIs {
		return nil
	}
	var errs []error
	limits := func(read, write time.Duration) {
		least := min(ttl/4, time.Second)
		if early := func(d time.Duration) bool { return d > 0 && d < least }; early(read) || early(write) {
			errs = append(errs, finding(FindingClient, locker.Refuse,
				"ReadTimeout and WriteTimeout of WithClient's client, %v and %v, end "+
					"requests that may take %v: leave that to their contexts, with -2", read, write, least))
		}
	}
	switch c := s.conn.AsIs.(type) {
	case *redis.Client:
		limits(c.Options().ReadTimeout, c.Options().WriteTimeout)
	case *redis.ClusterClient:
		limits(c.Options().ReadTimeout, c.Options().WriteTimeout)
		if every := c.Options().ClusterStateReloadInterval; every > redisconn.Reload {
			errs = append(errs, finding(FindingClient, locker.Warn,
				"the ClusterStateReloadInterval of WithClient's client is %v: "+
					"so long it may ask a master that has died, set it to %v", every, redisconn.Reload))
		}
	default:
		errs = append(errs, finding(FindingClient, locker.Warn,
			"WithClient's client is a %T, whose settings cannot be looked at: "+
				"it must not retry (MaxRetries -1) and must keep deadlines (ContextTimeoutEnabled)", c))
	}
	return errors.Join(errs...)
}

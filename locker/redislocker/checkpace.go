package redislocker

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// checkPace compares a round trip and a new connection with the time limits
// that follow from ttl.
func (l *Locker) checkPace(ctx context.Context, ttl time.Duration) error {
	trip, err := l.measureTrip(ctx)
	if err != nil {
		return err
	}
	if found := l.checkTrip(trip, ttl); found != nil {
		return found
	}
	dial, login, err := l.conn.MeasureConnection(ctx, l.lockName(probeKey()))
	if err != nil {
		return unclear(err)
	}
	return l.checkConnection(trip, dial, login, ttl)
}

// measureTrip returns the shortest of a few round trips, so that one slow
// answer raises no alarm.
func (l *Locker) measureTrip(ctx context.Context) (best time.Duration, err error) {
	c := probeClaim()
	for i := range 3 {
		start := time.Now()
		if _, _, err := l.look(ctx, c, locker.Try{}); err != nil {
			return 0, err
		}
		if d := time.Since(start); i == 0 || d < best {
			best = d
		}
	}
	return best.Round(time.Millisecond), nil
}

// checkTrip finds a round trip that is too long for any try.
func (l *Locker) checkTrip(trip, ttl time.Duration) error {
	limit, trips := tryLimit(ttl), 1
	if l.settings.replicas > 0 || !l.conn.Own() {
		trips = 2 // one more for the wait for replicas, or for a login that go-redis makes part of the try
	}
	switch needs := time.Duration(trips) * trip; {
	case needs > limit*9/10 && limit == tryMost:
		return finding(FindingRoundTrip, locker.Refuse,
			"a round trip takes %v, and a try to acquire, which needs %d, has %v: "+
				"bring the server closer", trip, trips, limit)
	case needs > limit*9/10, trip > ttl/paceShare:
		return finding(FindingRoundTrip, locker.Refuse,
			"a round trip takes %v: too long for a TTL of %v, with %v for a try to acquire "+
				"and %v for one to renew; raise the TTL with guard.WithTTL, or bring the server closer",
			trip, ttl, limit, ttl/6)
	}
	return nil
}

// checkConnection finds a new connection that is too slow. A dial is not part
// of a try, but a try that cannot wait for it fails.
func (l *Locker) checkConnection(trip, dial, login, ttl time.Duration) error {
	limit := tryLimit(ttl)
	switch all := dial + login + trip; {
	case !l.conn.Own() && login+trip > limit:
		return finding(FindingRoundTrip, locker.Refuse,
			"a login takes %v and a round trip %v: more than the %v of a try to acquire, of which "+
				"the client of WithClient makes both a part; let the locker make its own client, or bring "+
				"the server closer", login, trip, limit)
	case all > ttl/6:
		return finding(FindingRoundTrip, locker.Warn,
			"a new connection takes %v (dial %v, login %v) and a round trip %v, together more than a "+
				"sixth of the TTL of %v: a connection that breaks may cost its lease; raise the TTL with "+
				"guard.WithTTL, "+
				"or bring the server "+
				"closer", dial+login, dial, login, trip, ttl)
	case all > limit:
		return finding(FindingRoundTrip, locker.Warn,
			"a new connection takes %v (dial %v, login %v) and a round trip %v, together more than the "+
				"%v of a try to acquire: until a connection is there, TryAcquire and a MaxWait of 0 find the "+
				"locker unavailable", dial+login,
			dial, login, trip, limit)
	}
	return nil
}

// tryLimit is the time that the guard gives a try to acquire.
func tryLimit(ttl time.Duration) time.Duration { return min(ttl/4, tryMost) }

package redislocker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// Names of the findings of [Locker.Check], see [guard.WithAcceptedFindings].
const (
	FindingEviction  = "eviction"   // the server drops keys when it is full, or does not say whether it does
	FindingRoundTrip = "round-trip" // too long for the TTL
	FindingRights    = "rights"     // the user lacks rights that leases need
	FindingMessages  = "messages"   // waiting is polling: rights are missing, or subscriptions are elsewhere
	FindingList      = "list"       // the user lacks the rights of List
	FindingReplicas  = "replicas"   // fewer are connected than WithReplicas waits for
	FindingClient    = "client"     // a setting of the client of WithClient
	FindingScripts   = "scripts"    // the server runs other commands between those of a script
	FindingWriters   = "writers"    // other servers write the same keys, so a lease on this one excludes nobody there
)

var findings = []string{
	FindingEviction, FindingRoundTrip, FindingRights, FindingMessages, FindingList, FindingReplicas, FindingClient,
	FindingScripts, FindingWriters,
}

const (
	probeTTL  = 5 * time.Second
	paceShare = 10 // a round trip may take a tenth of the TTL; a try to renew has a sixth
	tryMost   = 500 * time.Millisecond
)

// Check reports whether the server can serve leases of ttl now. It tries each
// right that the user needs. It takes a lease through its life, under a key
// that nobody uses. It measures a round trip and a new connection. It asks
// whether the server may evict keys, and whether other servers write the same
// keys, of which not every server tells.
//
// The error holds everything that is wrong, each as a [locker.Finding] with one
// of the names above. Check leaves nothing behind. In a cluster it takes the
// lease on one node only, and tries once in the life of the locker whether
// scripts are one step. It does not look at other keys. If something else
// uses the name of a key for another type, the call that meets the key reports
// it.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error {
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Leave()
	return checker{l}.check(ctx, ttl)
}

// checker has the parts of a Check.
type checker struct{ *Locker }

func (l checker) check(ctx context.Context, ttl time.Duration) error {
	found := []error{l.settings.checkClient(ttl), l.checkRights(ctx)}
	if refuses(found) {
		return errors.Join(found...) // the other checks would only repeat it
	}
	steps := l.checkAtomicity(ctx)
	found = append(found, l.checkReplicas(ctx), steps)
	if refuses([]error{steps}) {
		return errors.Join(found...) // what the scripts of a lease do there means nothing
	}
	if found = append(found, l.probe(ctx)); refuses(found) {
		return errors.Join(found...)
	}
	return errors.Join(append(found, l.checkPace(ctx, ttl), l.info(ctx, "memory", l.evicts), l.checkWriters(ctx))...)
}

// refuses reports whether errs hold more than warnings.
func refuses(errs []error) bool {
	found, rest := locker.Findings(errors.Join(errs...))
	return rest != nil || slices.ContainsFunc(found, func(f locker.Finding) bool { return f.Severity == locker.Refuse })
}

func finding(name string, severity locker.Severity, format string, args ...any) error {
	return lockerkit.Finding("redislocker", name, severity, format, args...)
}

// probe uses every right that a lease may need.
func (l checker) probe(ctx context.Context) error {
	c := probeClaim()
	k := l.names.keys(c.Key)
	err := l.live(ctx, c)
	traces := call{line: []any{"del", k.lock, k.fence, k.wait, k.due}}
	if err == nil {
		err = l.tryError(l.runCalls(ctx, traces)[0].Err())
	}
	if err != nil {
		l.life.Go(func() { // ends with its limit; ctx may have ended
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.Apart(lateLimit))
			defer cancel()
			_ = l.runCalls(ctx, traces)
		})
	}
	return err
}

func probeClaim() *locker.Claim {
	return &locker.Claim{Key: probeKey(), Owner: lockerkit.NewID(), TTL: probeTTL}
}

// live takes c through the life of a lease that another claim waits for. It
// takes the other claim through a hand-over.
func (l checker) live(ctx context.Context, c *locker.Claim) error {
	for try := range 3 { // as its first request, as a later one, and with tokens
		c.Fencing = try == 2
		if a, err := l.attempt(c, locker.Try{}).take(ctx); err != nil {
			return err
		} else if !a.Acquired {
			_, _, err := l.attempt(c, locker.Try{}).look(ctx)
			return cmp.Or(err, unclear(errors.New("a key that nobody else knows is held")))
		}
	}
	waiter := &locker.Claim{Key: c.Key, Owner: lockerkit.NewID(), TTL: probeTTL, Fencing: true}
	for range 2 { // queues, then finds itself in the queue
		if _, _, err := l.attempt(waiter, locker.Try{Wait: true}).look(ctx); err != nil {
			return err
		}
	}
	if err := l.runCalls(ctx, l.state(c).renewCall())[0].Err(); err != nil {
		return l.tryError(err)
	}
	release := l.endCall(c, locker.End{})
	if _, err := readFreed(l.runOne(ctx, release)); err != nil {
		return err
	}
	if _, err := readFreed(l.runOne(ctx, release)); !errors.Is(err, locker.ErrLeaseLost) {
		return cmp.Or(err, unclear(errors.New("a key was released twice")))
	}
	_, free, err := l.attempt(waiter, locker.Try{Queued: true}).look(ctx)
	if err == nil && !free {
		err = unclear(errors.New("a release has not handed its key over"))
	}
	return err
}

// info reads a section of INFO from every server that may have keys. It joins
// the errors of read that differ.
func (l checker) info(ctx context.Context, section string,
	read func(info map[string]string, err error) error,
) error {
	nodes, err := l.conn.Primaries(ctx)
	if err != nil {
		return unclear(err)
	}
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() { // ends with the request
			text, err := node.Info(ctx, section).Result()
			errs[i] = read(redisconn.ReadInfo(text), err)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if slices.ContainsFunc(errs[:i], func(e error) bool { return fmt.Sprint(e) == fmt.Sprint(err) }) {
			errs[i] = nil // another server said so
		}
	}
	return errors.Join(errs...)
}

// checkReplicas finds too few replicas for any acquire to succeed. The probe
// shows that as well, but not the cause.
func (l checker) checkReplicas(ctx context.Context) error {
	want := l.settings.replicas
	if want == 0 {
		return nil
	}
	return l.info(ctx, "replication", func(info map[string]string, _ error) error {
		if n := replicasIn(info); n >= 0 && n < want {
			return finding(FindingReplicas, locker.Refuse,
				"%d replicas are connected and WithReplicas waits for %d: no key can be had until "+
					"they are there", n, want)
		}
		return nil // if the server does not say, the probe tries it
	})
}

// checkWriters finds a server that is one of several that write the same keys.
// Two of them may then grant the same key at the same time.
func (l checker) checkWriters(ctx context.Context) error {
	read := func(info map[string]string, _ error) error {
		var sign string
		switch {
		case info["crdt_config_version"] != "":
			sign = "its INFO has the section crdt of an Active-Active or geo-replicated database"
		case info["role"] == "active-replica":
			sign = "its role is active-replica"
		default:
			return nil // it is alone, or does not say
		}
		return finding(FindingWriters, locker.Refuse,
			"other servers write the same keys (%s), so a key can be had twice: give leases a database with one "+
				"primary; if every process writes at this one alone, accept it", sign)
	}
	return errors.Join(l.info(ctx, "crdt", read), l.info(ctx, "replication", read))
}

// evicts reads the memory section of INFO, and finds a server that may drop
// keys.
func (l checker) evicts(info map[string]string, err error) error {
	limit, policy := info["maxmemory"], info["maxmemory_policy"]
	switch {
	case err != nil && !l.refused(err):
		return unclear(err)
	case l.missed(err, "+info") != "":
		return finding(FindingEviction, locker.Warn,
			"whether the server drops keys when it is full is not known: give the user +info, or accept it")
	case policy == "":
		return finding(FindingEviction, locker.Warn,
			"whether the server drops keys when it is full is not known, its INFO does not say: find "+
				"out, and accept it")
	case limit == "0" || policy == "noeviction":
		return nil
	}
	return finding(FindingEviction, locker.Refuse, "the server drops keys, leases among them, when %s bytes are full: "+
		"set its maxmemory-policy to noeviction instead of %s, or give leases a server of their own", limit, policy)
}

// checkPace compares a round trip and a new connection with the time limits
// that follow from ttl.
func (l checker) checkPace(ctx context.Context, ttl time.Duration) error {
	trip, err := l.measureTrip(ctx)
	if err != nil {
		return err
	}
	if found := l.checkTrip(trip, ttl); found != nil {
		return found
	}
	var found error
	for range 3 { // one slow answer raises no alarm
		dial, login, err := l.conn.MeasureConnection(ctx, l.names.lock(probeKey()))
		if err != nil {
			return unclear(err)
		}
		if found = l.checkConnection(trip, dial, login, ttl); found == nil {
			return nil
		}
	}
	return found
}

// measureTrip returns the shortest of a few round trips, so that one slow
// answer raises no alarm.
func (l checker) measureTrip(ctx context.Context) (best time.Duration, err error) {
	c := probeClaim()
	for i := range 3 {
		start := time.Now()
		if _, _, err := l.attempt(c, locker.Try{}).look(ctx); err != nil {
			return 0, err
		}
		if d := time.Since(start); i == 0 || d < best {
			best = d
		}
	}
	return best.Round(time.Millisecond), nil
}

// checkTrip finds a round trip that is too long for any try.
func (l checker) checkTrip(trip, ttl time.Duration) error {
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
func (l checker) checkConnection(trip, dial, login, ttl time.Duration) error {
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

// checkClient finds settings of WithClient's client that could be better.
// [settings.check] refuses the settings that it must not have at all.
func (s *settings) checkClient(ttl time.Duration) error {
	if s.conn.AsIs == nil {
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

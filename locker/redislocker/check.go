package redislocker

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

const (
	probeTTL  = 5 * time.Second
	paceShare = 10 // a round trip may take this part of the TTL: a try to renew has a sixth of it
)

// Check reports whether the server can serve leases of ttl now: it takes one through its life under a key that is
// nobody's, measures a round trip, and asks whether the server may evict keys. All that is wrong is in the error, each
// with what to change. Check leaves nothing behind. In a cluster it takes the lease on one node only.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.calls.Done()
	if err := l.probe(ctx); err != nil {
		return err // the rest would only say it again
	}
	return errors.Join(l.checkPace(ctx, ttl), l.checkEviction(ctx))
}

// probe makes use of every right that a lease may need.
func (l *Locker) probe(ctx context.Context) error {
	c := probeClaim()
	k := l.keys(c.Key)
	err := l.live(ctx, c)
	traces := call{line: []any{"del", k.lock, k.fence, k.wait}}
	if err == nil {
		err = l.tryError(l.run(ctx, traces)[0].Err())
	}
	if err != nil { // also because ctx ended: cleaning up is for the janitor
		l.janitor.add(l.node(c.Key), chore{call: traces, again: true})
	}
	return err
}

func probeClaim() *locker.Claim {
	return &locker.Claim{Key: probeKey(), Owner: newID(), TTL: probeTTL, Fencing: true}
}

// live takes c through the life of a lease that another waits for, and the other through a hand-over.
func (l *Locker) live(ctx context.Context, c *locker.Claim) error {
	if a, err := l.obtain(ctx, c); err != nil {
		return err
	} else if !a.Acquired {
		return unclear(errors.New("a key that nobody else knows is held"))
	}
	waiter := &locker.Claim{Key: c.Key, Owner: newID(), TTL: probeTTL, Fencing: true}
	for range 2 { // queues, then finds itself in the queue
		if _, _, err := l.look(ctx, waiter, locker.Try{Wait: true}); err != nil {
			return err
		}
	}
	if err := l.run(ctx, renewCall(c, l.keys(c.Key)))[0].Err(); err != nil {
		return l.tryError(err)
	}
	if _, err := l.release(ctx, c, nil); err != nil {
		return err
	}
	if _, err := l.release(ctx, c, nil); !errors.Is(err, locker.ErrLeaseLost) { // one that comes twice
		return cmp.Or(err, unclear(errors.New("a key was released twice")))
	}
	_, free, err := l.look(ctx, waiter, locker.Try{Queued: true})
	if err == nil && !free {
		err = unclear(errors.New("a release has not handed its key over"))
	}
	if err != nil {
		return err
	}
	ping, publish := command{redis.NewCmd(ctx, "ping")}, command{redis.NewCmd(ctx, "publish", l.inbox.channel, "probe")}
	answers := l.send(ctx, ping, publish) // a script does without the right to publish, but its waiters poll then
	return l.tryError(cmp.Or(answers[0].Err(), answers[1].Err()))
}

// checkPace measures the best of a few round trips, so that one slow answer is no alarm.
func (l *Locker) checkPace(ctx context.Context, ttl time.Duration) error {
	c := probeClaim()
	var best time.Duration
	for i := range 3 {
		start := time.Now()
		if _, _, err := l.look(ctx, c, locker.Try{}); err != nil {
			return err
		}
		if d := time.Since(start); i == 0 || d < best {
			best = d
		}
	}
	if best <= ttl/paceShare {
		return nil
	}
	return fmt.Errorf("redislocker: a round trip takes %v, more than a tenth of the TTL of %v: "+
		"raise the TTL with guard.WithTTL, or bring the server closer", best.Round(time.Millisecond), ttl)
}

// checkEviction asks every server that keys may live on.
func (l *Locker) checkEviction(ctx context.Context) error {
	if l.cluster == nil {
		return evicts(l.client.Info(ctx, "memory"))
	}
	return l.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return evicts(node.Info(ctx, "memory"))
	})
}

// evicts reads what INFO says about memory. A server that does not say is not known to be wrong.
func evicts(info *redis.StringCmd) error {
	limit, policy := "0", "noeviction"
	for lines := bufio.NewScanner(strings.NewReader(info.Val())); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "maxmemory":
			limit = value
		case "maxmemory_policy":
			policy = value
		}
	}
	if limit == "0" || policy == "noeviction" {
		return nil
	}
	return fmt.Errorf("redislocker: the server drops keys, leases among them, when %s bytes are full: "+
		"set its maxmemory-policy to noeviction instead of %s, or give leases a server of their own", limit, policy)
}

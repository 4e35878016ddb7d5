package redislocker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
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
	c := &guard.Claim{Owner: newID(), TTL: probeTTL, Fencing: true}
	k := l.tagged(probeTag())
	err := l.live(ctx, c, k)
	traces := call{line: []any{"del", k.fence(), k.wait()}}
	if err != nil { // also because ctx ended: cleaning up is for the janitor
		l.janitor.add(chore{calls: []call{cleanCall(k, c.Owner), traces}, again: true})
		return err
	}
	if err := l.run(ctx, traces)[0].Err(); err != nil {
		l.janitor.add(chore{calls: []call{traces}, again: true})
		return l.tryError(err)
	}
	return nil
}

// live takes c through the life of a lease that another waits for, and the other through a wake-up.
func (l *Locker) live(ctx context.Context, c *guard.Claim, k keys) error {
	if _, err := l.try(ctx, c, k); errors.Is(err, redislock.ErrNotObtained) {
		return unclear(err) // under a key that nobody else knows
	} else if err != nil {
		return err
	}
	waiter := &guard.Claim{Owner: newID(), Waits: true, Yield: true}
	for range 2 { // queues, then finds itself in the queue
		if _, err := l.look(ctx, waiter, k); err != nil {
			return l.tryError(err)
		}
	}
	if err := l.run(ctx, renewCall(c, k))[0].Err(); err != nil {
		return l.tryError(err)
	}
	if _, err := l.release(ctx, c, k); err != nil {
		return err
	}
	if err := l.state(c).travel.answer.Err(); err != nil { // a release does not fail for it
		return l.tryError(err)
	}
	if _, err := l.look(ctx, waiter, k); err != nil {
		return l.tryError(err)
	}
	ping := command{redis.NewCmd(ctx, "ping")}
	if l.send(ctx, ping); ping.Err() != nil {
		return l.tryError(ping.Err())
	}
	wake := l.wakeCall("", k, newID(), true) // as another instance would wake this one
	if err := l.run(ctx, wake)[0].Err(); err != nil {
		return l.tryError(err)
	}
	return nil
}

// checkPace measures the best of a few round trips, so that one slow answer is no alarm.
func (l *Locker) checkPace(ctx context.Context, ttl time.Duration) error {
	k := l.tagged(probeTag())
	var best time.Duration
	for i := range 3 {
		start := time.Now()
		if _, err := l.look(ctx, &guard.Claim{Owner: newID()}, k); err != nil {
			return l.tryError(err)
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

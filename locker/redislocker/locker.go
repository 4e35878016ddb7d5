package redislocker

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// Locker is a [locker.Locker] in Redis, made by [New] and opened by
// [guard.New]. Each locker is an instance of its own to others, also within one
// process. Its methods block for as long as the requests they send, at most
// until their context ends; after Close they return [locker.ErrClosed]. It is
// safe for concurrent use.
type Locker struct {
	settings settings
	instance string // how others know this locker
	inboxes  any    // what the channel of every inbox under this prefix starts with, before the instance id
	gate     lockerkit.Gate

	// Set by Open, before any other method.
	client    redis.UniversalClient
	own       bool                 // client is ours to close
	cluster   *redis.ClusterClient // client, if it is one
	janitor   *janitor
	inbox     *inbox
	batcher   *batcher
	fresh     *fresh
	greeters  *greeters         // who log in on connections
	greeter   *greeter          // the one of client, if that is the locker's own
	at        *whereabouts      // of the primary, if client is the locker's own for Sentinel
	sentinels *sentinels        // of WithSentinel
	recent    *recent           // nil on a server that never changes
	waits     waits             // of WithReplicas
	locks     *redislock.Client // what obtains without fencing

	inFlight  atomic.Int64                // requests under way
	trip      trip                        // how long a round trip takes
	openings  openings                    // of connections that tries wait for
	described atomic.Pointer[description] // see describe
}

var _ locker.Locker = (*Locker)(nil)

// New returns a locker for the server that rdb talks to. It only keeps its
// settings: [guard.New] opens it, and returns what is wrong with them. rdb is a
// *redis.Client (Sentinel included) or a *redis.ClusterClient, and stays the
// caller's; see [WithClient] for any other.
func New(rdb redis.UniversalClient, opts ...Option) *Locker {
	l := &Locker{
		settings: settings{rdb: rdb, prefix: "guard", name: "guard"},
		instance: lockerkit.NewID(), gate: lockerkit.Gate{Store: "redislocker"},
	}
	for _, o := range opts {
		if lockerkit.IsNil(o) {
			l.settings.nilOpt = true
			continue
		}
		o.apply(&l.settings)
	}
	l.instance = cmp.Or(l.settings.node.Instance, l.instance)
	return l
}

// Open checks the settings and makes the locker's own client; it sends nothing.
// What is wrong is a [locker.ErrInvalidOption], also a second Open.
func (l *Locker) Open(w locker.Waker) error {
	return l.gate.Open(func() error { return l.ready(w) })
}

func (l *Locker) ready(w locker.Waker) error {
	if err := l.settings.check(); err != nil {
		return err
	}
	l.greeters = newGreeters(l.settings.name, l.settings.node.Admit, l.trip.note)
	if err := l.connect(); err != nil {
		return err
	}
	l.cluster, _ = l.client.(*redis.ClusterClient)
	l.janitor = newJanitor(l.clean)
	l.batcher = newBatcher(func(ctx context.Context, cmds []command) { l.exchange(ctx, l.client, cmds) })
	l.fresh = l.newFresh()
	l.locks = redislock.New(&travel{locker: l})
	inboxes := l.settings.prefix + ":inbox:"
	l.inboxes = inboxes
	if l.settings.replicas > 0 {
		w = confirming{w, l}
	}
	l.inbox = newInbox(l.client, inboxes+l.instance, w, l.giveBack)
	if l.at != nil {
		l.inbox.where = l.at.now
	}
	if l.settings.sentinelGiven {
		l.sentinels = newSentinels(ownFailoverOptions(l.settings.sentinel), l.greeters, &l.trip)
		l.at.sentinels = l.sentinels
	}
	if l.cluster != nil || l.at != nil {
		l.recent = newRecent(l.primary, l.ask, l.giveBack)
		l.recent.trip = &l.trip
	}
	return nil
}

// Close ends the locker: what is left to clean up is done at once, calls under
// way end as their contexts say, and the locker's own connections are closed.
// It returns ctx's error if that was too short; the rest then goes on behind
// it, but what could not be cleaned up ends at its TTL. Idempotent.
func (l *Locker) Close(ctx context.Context) error {
	err := l.gate.Close(ctx, l.shutDown)
	if err != nil {
		l.janitor.giveUp()
	}
	return err
}

// shutDown closes the client only when nobody uses it: go-redis 9.19 takes the
// time limit from a read under way when it closes its connection, and then
// waits for it.
func (l *Locker) shutDown() {
	l.recent.close()
	l.inbox.close()
	l.janitor.finish()
	l.gate.Wait()
	l.greeters.close()
	l.openings.dials.Wait()
	l.batcher.close()
	l.fresh.close()
	if l.sentinels != nil {
		l.sentinels.close()
	}
	if l.own {
		_ = l.client.Close()
	}
}

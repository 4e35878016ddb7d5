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
// [guard.New]. Each locker is an instance of its own, even within one process.
// Its methods block for as long as their requests, at most until the context
// ends. After Close they return [locker.ErrClosed]. A Locker is safe for
// concurrent use.
type Locker struct {
	settings settings
	instance string // how others know this locker
	inboxes  any    // start of the channel of every inbox under this prefix, before the instance id
	gate     lockerkit.Gate

	// Set by Open, before any other method.
	client    redis.UniversalClient
	own       bool                 // client is ours to close
	cluster   *redis.ClusterClient // client, if it is one
	janitor   *janitor
	inbox     *inbox
	batcher   *batcher
	fresh     *fresh
	greeters  *greeters         // log in on new connections
	greeter   *greeter          // the one of client, if that is the locker's own
	at        *whereabouts      // of the primary, if client is the locker's own for Sentinel
	sentinels *sentinels        // of WithSentinel
	recent    *recent           // nil on a server that never changes
	waits     waits             // of WithReplicas
	locks     *redislock.Client // obtains keys without fencing

	inFlight  atomic.Int64                // requests under way
	trip      trip                        // how long a round trip takes
	openings  openings                    // of connections that tries wait for
	described atomic.Pointer[description] // see describe
}

var _ locker.Locker = (*Locker)(nil)

// New returns a locker for the server that rdb talks to. It only keeps its
// settings. [guard.New] opens it, and returns an error if a setting is wrong.
// rdb is a *redis.Client (Sentinel included) or a *redis.ClusterClient, and
// stays the caller's. See [WithClient] for any other type.
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

// Open checks the settings and makes the locker's own client. It sends nothing.
// A wrong setting is a [locker.ErrInvalidOption], and so is a second Open.
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

// Close ends the locker and closes its own connections. It does at once all
// that is left to clean up. Calls under way end by their contexts. If ctx ends
// first, Close returns ctx's error, and the rest goes on in the background.
// Keys that could not be cleaned up then end at their TTL. Close is idempotent.
func (l *Locker) Close(ctx context.Context) error {
	err := l.gate.Close(ctx, l.shutDown)
	if err != nil {
		l.janitor.giveUp()
	}
	return err
}

// shutDown closes the client only when nobody uses it. When go-redis 9.19
// closes a connection, it takes away the time limit of a read under way, and
// then waits for this read.
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

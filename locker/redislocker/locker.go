package redislocker

import (
	"cmp"
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisconn"
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
	owned    redis.UniversalClient // nil, or the client that locker.FromDSN made

	// Set by Open, before any other method.
	conn    *redisconn.Conns
	janitor *janitor
	inbox   *inbox
	recent  *recent           // nil on a server that never changes
	locks   *redislock.Client // obtains keys without fencing
	freeing *script           // release.lua for the names of this locker

	steps     steps                       // see checkSteps
	described atomic.Pointer[description] // see describe
	seed      maphash.Seed
	known     [256]atomic.Pointer[knownKey] // by hash of the key
}

var _ locker.Locker = (*Locker)(nil)

// New returns a locker for the server that rdb talks to. It only keeps its
// settings. [guard.New] opens it, and returns an error if a setting is wrong.
// rdb is a *redis.Client (Sentinel included) or a *redis.ClusterClient, and
// stays the caller's. See [WithClient] for any other type.
func New(rdb redis.UniversalClient, opts ...Option) *Locker {
	l := &Locker{
		settings: settings{conn: redisconn.Settings{Client: rdb, Name: "guard"}, prefix: "guard"},
		instance: lockerkit.NewID(), gate: lockerkit.Gate{Store: "redislocker"}, seed: maphash.MakeSeed(),
	}
	for _, o := range opts {
		if lockerkit.IsNil(o) {
			l.settings.nilOpt = true
			continue
		}
		o.apply(&l.settings)
	}
	l.instance = cmp.Or(l.settings.instance, l.instance)
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
	l.conn = redisconn.New(&l.settings.conn)
	l.janitor = newJanitor(l.clean)
	l.locks = redislock.New(&travel{locker: l})
	inboxes := l.settings.prefix + ":inbox:"
	l.inboxes = inboxes
	l.freeing = newRelease(inboxes, !l.conn.Cluster())
	if l.settings.replicas > 0 {
		w = confirming{w, l}
	}
	l.inbox = newInbox(l.conn, inboxes+l.instance, w, l.giveBack)
	if l.conn.Sentinel() {
		l.inbox.where = l.conn.Elected
	}
	if l.conn.Cluster() || l.conn.Sentinel() {
		l.recent = newRecent(l.primary, l.ask, l.giveBack)
		l.recent.trip = &l.conn.Trip
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

// shutDown closes the connections only when nobody uses them.
func (l *Locker) shutDown() {
	l.recent.close()
	l.inbox.close()
	l.janitor.finish()
	l.gate.Wait()
	l.conn.Close()
	l.closeOwned()
}

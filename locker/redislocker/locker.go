package redislocker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
)

// Locker is a [guard.Locker] in Redis, made by [New] and opened by [guard.New]. Each locker is an instance of its own to
// others, also within one process. Its methods block for as long as the requests they send, at most until their context
// ends; after Close they return [guard.ErrClosed]. It is safe for concurrent use.
type Locker struct {
	settings settings
	instance string // how others know this locker

	opened atomic.Bool
	closed atomic.Bool

	// Set by Open, before any other method.
	client  redis.UniversalClient
	cluster *redis.ClusterClient // client, if it is one
	janitor *janitor

	closeOwn sync.Once // closes client, if it is our own
	own      bool
}

var _ guard.Locker = (*Locker)(nil)

// New returns a locker for the server that rdb talks to. It only keeps its settings: [guard.New] opens it, and returns
// what is wrong with them. rdb is a *redis.Client (Sentinel included) or a *redis.ClusterClient, and stays the caller's;
// see [WithClient] for any other.
func New(rdb redis.UniversalClient, opts ...Option) *Locker {
	l := &Locker{settings: settings{rdb: rdb, prefix: "guard"}, instance: newID()}
	for _, o := range opts {
		if isNil(o) {
			l.settings.nilOpt = true
			continue
		}
		o.apply(&l.settings)
	}
	return l
}

// Open checks the settings and makes the locker's own client; it sends nothing. What is wrong is a
// [guard.ErrInvalidOption], also a second Open. It has no use for the waker yet: waiters look again by themselves.
func (l *Locker) Open(guard.Waker) error {
	if !l.opened.CompareAndSwap(false, true) {
		return invalid("the locker was opened before: each guard.New needs one of its own")
	}
	if err := l.settings.check(); err != nil {
		return err
	}
	rdb, own, err := l.settings.connect()
	if err != nil {
		return err
	}
	l.client, l.own = rdb, own
	l.cluster, _ = rdb.(*redis.ClusterClient)
	l.janitor = newJanitor(l.clean)
	return nil
}

// ready returns why no request can be sent, or nil.
func (l *Locker) ready() error {
	switch {
	case l.closed.Load():
		return guard.ErrClosed
	case l.client == nil:
		return invalid("the locker is not open: pass it to guard.New")
	}
	return nil
}

// Close ends the locker: what is left to clean up is done at once, as far as ctx allows, then the locker's own
// connections are closed. It returns ctx's error if that was too short; what is left then ends at its TTL. Idempotent.
func (l *Locker) Close(ctx context.Context) error {
	l.closed.Store(true)
	if l.client == nil {
		return nil
	}
	err := l.janitor.finish(ctx)
	if err != nil {
		l.closeClient() // ends the request that the janitor waits for
		l.janitor.join()
	}
	return errors.Join(err, l.closeClient())
}

func (l *Locker) closeClient() (err error) {
	if l.own {
		l.closeOwn.Do(func() { err = l.client.Close() })
	}
	return err
}

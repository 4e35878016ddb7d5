package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisnode"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Locker is a [locker.Locker] on a quorum of Redis servers, made by [New] and
// opened by [guard.New]. Its methods block for as long as a quorum takes to
// answer, at most until their context ends; after Close they return
// [locker.ErrClosed]. It is safe for concurrent use.
type Locker struct {
	settings settings
	instance string         // how others know this locker, on all nodes
	gate     lockerkit.Gate // its calls are also the requests that outlive one by their limit

	// Set by Open, before any other method.
	nodes  []*node
	quorum int
	waker  locker.Waker
	known  *registry
	agenda *agenda
	picks  chan struct{} // holds one for each request that takes a missing node: at most mostPicks
}

var _ locker.Locker = (*Locker)(nil)

// New returns a locker that keeps each lease on a majority of nodes: an odd
// number of independent servers, three or more, each given by a client of its
// own. It only keeps its settings: [guard.New] opens it, and returns what is
// wrong with them. The clients stay the caller's, and must stay open for as
// long as the locker is.
func New(nodes []redis.UniversalClient, opts ...Option) *Locker {
	l := &Locker{
		settings: settings{nodes: nodes, prefix: "guard", limit: defaultLimit, holdOut: defaultHoldOut},
		instance: lockerkit.NewID(), gate: lockerkit.Gate{Store: "redlock"},
	}
	for _, o := range opts {
		if lockerkit.IsNil(o) {
			l.settings.nilOpt = true
			continue
		}
		o.apply(&l.settings)
	}
	return l
}

// Open checks the settings and opens a redislocker for each node; it sends
// nothing. What is wrong is a [locker.ErrInvalidOption], also a second Open.
func (l *Locker) Open(w locker.Waker) error {
	return l.gate.Open(func() error { return l.ready(w) })
}

func (l *Locker) ready(w locker.Waker) error {
	if err := l.settings.check(); err != nil {
		return err
	}
	nodes := make([]*node, len(l.settings.nodes))
	ids := &identities{ids: make(map[string]int)}
	l.waker, l.quorum, l.known = w, len(nodes)/2+1, newRegistry()
	l.agenda, l.picks = newAgenda(l.attend), make(chan struct{}, mostPicks)
	for i, rdb := range l.settings.nodes {
		n := &node{number: i + 1, holdOut: l.settings.holdOut, ids: ids}
		n.store = redislocker.New(rdb, redislocker.WithPrefix(l.settings.prefix),
			redislocker.WithNode(redisnode.Node{Instance: l.instance, Admit: n.admit}))
		if err := n.store.Open(&ear{locker: l, seat: i}); err != nil { // nothing to close: it has not sent anything
			return fmt.Errorf("redlock: %w", n.of(err))
		}
		nodes[i] = n
	}
	l.nodes = nodes
	return nil
}

// within returns the context of one request to a node: it has its own limit, so
// that it may outlive the call that the others have answered already.
func (l *Locker) within(ctx context.Context, ttl time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), min(l.settings.limit, ttl/2))
}

// Close ends the locker: calls under way end as their contexts say, what is
// left to clean up is done at once on every node, and the locker's own
// connections are closed. It returns ctx's error if that was too short; the
// rest then goes on behind it, but what could not be cleaned up ends at its
// TTL. Idempotent.
func (l *Locker) Close(ctx context.Context) error {
	if l.nodes == nil {
		return nil
	}
	_ = l.gate.Close(ctx, func() { // the nodes say so too
		l.agenda.close()
		l.gate.Wait() // within a node's limit of the last call
	})
	errs := make([]error, len(l.nodes))
	var all sync.WaitGroup
	for i, n := range l.nodes {
		all.Go(func() { errs[i] = n.store.Close(ctx) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

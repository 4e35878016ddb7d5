package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Locker is a [locker.Locker] on a quorum of Redis servers. Make it with [New].
// [guard.New] opens it. Its methods block until a quorum has answered, at most
// until their context ends. After Close they return [locker.ErrClosed]. It is
// safe for concurrent use.
type Locker struct {
	locker.Unsupported

	settings settings
	instance string         // this locker's name for others, the same on all nodes
	life     lockerkit.Life // counts calls, and requests that outlive a call by their limit

	// The fields below are set by Open, before any other method.
	nodes  []*node
	quorum int
	waker  locker.Waker
	known  *registry
	// picks holds one value for each request that takes a missing node, at most
	// mostPicks.
	picks chan struct{}
}

var _ locker.Locker = (*Locker)(nil)

// New returns a locker that keeps each lease on a majority of nodes. Give it an
// odd number of independent servers, three or more, each by a client of its
// own. New only keeps its settings. [guard.New] opens the locker and returns
// the error if they are invalid. The clients belong to the caller, and must
// stay open as long as the locker.
func New(nodes []redis.UniversalClient, opts ...Option) *Locker {
	l := &Locker{
		settings: settings{nodes: nodes, prefix: "guard", limit: defaultLimit, restartDelay: defaultRestartDelay},
		instance: lockerkit.NewID(), life: lockerkit.Life{Store: "redlock"},
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

// Capabilities are those of a quorum.
func (*Locker) Capabilities() locker.Capabilities {
	return locker.Capabilities{Inspects: true, Findings: findings}
}

// Open checks the settings and opens a redislocker for each node. It sends
// nothing. It returns [locker.ErrInvalidOption] for invalid settings and for a
// second Open.
func (l *Locker) Open(w locker.Waker) error {
	return l.life.Open(func() error { return l.ready(w) })
}

func (l *Locker) ready(w locker.Waker) error {
	if err := l.settings.check(); err != nil {
		return err
	}
	nodes := make([]*node, len(l.settings.nodes))
	ids := &identities{ids: make(map[string]int)}
	l.waker, l.quorum, l.known = w, len(nodes)/2+1, newRegistry()
	l.picks = make(chan struct{}, mostPicks)
	for i, rdb := range l.settings.nodes {
		n := &node{number: i + 1, restartDelay: l.settings.restartDelay, ids: ids}
		n.store = redislocker.New(rdb, redislocker.WithPrefix(l.settings.prefix))
		n.janitor = lockerkit.NewJanitor(n.store)
		if err := n.store.Open(&ear{w, n, l}); err != nil { // no need to close: nothing was sent
			return fmt.Errorf("redlock: %w", n.of(err))
		}
		nodes[i] = n
	}
	l.nodes = nodes
	return nil
}

// within returns the context of one request to a node. It has its own limit, so
// that the request may outlive a call that the other nodes have answered.
func (l *Locker) within(ctx context.Context, ttl time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), min(l.settings.limit, ttl/2))
}

// everyNode calls f for all nodes at once, and returns the error of each.
func (l *Locker) everyNode(f func(n *node) error) []error {
	errs := make([]error, len(l.nodes))
	var all sync.WaitGroup
	for i, n := range l.nodes {
		all.Go(func() { errs[i] = f(n) })
	}
	all.Wait()
	return errs
}

// Close ends the locker. Calls under way end as their contexts say. The
// remaining clean-up is done at once on every node. Then the locker's own
// connections are closed.
//
// If ctx ends first, Close returns its error and the rest continues in the
// background. A key that could not be cleaned up ends at its TTL. Close is
// idempotent.
func (l *Locker) Close(ctx context.Context) error {
	if l.nodes == nil {
		return nil
	}
	_ = l.life.Close(ctx, l.life.Wait) // at most a node's limit; the nodes return the same error
	errs := l.everyNode(func(n *node) error { return errors.Join(n.janitor.Close(ctx), n.store.Close(ctx)) })
	return cmp.Or(errs...)
}

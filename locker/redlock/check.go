package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Names of the findings of [Locker.Check], besides those of each node's
// redislocker. See [guard.WithAcceptedFindings].
const (
	FindingRestartDelay = "restart-delay" // the TTL is longer than the restart delay
	FindingTwin         = "twin"          // two nodes are the same server
	FindingNode         = "node"          // a node does not answer, or is held out, and the others are a quorum
)

var findings = slices.Concat((*redislocker.Locker)(nil).Capabilities().Findings,
	[]string{FindingRestartDelay, FindingTwin, FindingNode})

// Check reports whether a quorum of the nodes can serve leases of ttl now. It
// also reports problems of each node. The error joins all of them, each as a
// [locker.Finding]. It is an ErrUnavailable if no quorum answers.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error {
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Leave()
	if err := l.fits(ttl); err != nil {
		return finding(FindingRestartDelay, locker.Refuse, err)
	}
	errs := l.everyNode(func(n *node) error { return n.check(ctx, ttl) })
	well, found := 0, []error(nil)
	for _, err := range errs {
		if errors.Is(err, locker.ErrUnavailable) {
			found = append(found, finding(FindingNode, locker.Warn, err))
			continue
		}
		well++
		found = append(found, err)
	}
	if well < l.quorum {
		return l.noQuorum(well, 0, present(errs))
	}
	return errors.Join(found...)
}

// finding returns a finding with the text of err, without its class. A finding
// has a severity instead.
func finding(name string, severity locker.Severity, err error) *locker.Finding {
	return &locker.Finding{Name: name, Severity: severity, Text: "redlock: " + classes.Replace(err.Error())}
}

var classes = strings.NewReplacer(locker.ErrInvalidOption.Error()+": ", "",
	locker.ErrUnavailable.Error()+": ", "", "redlock: ", "")

// fits returns the reason why a lease cannot have the given TTL, or nil.
func (l *Locker) fits(ttl time.Duration) error {
	if out := l.settings.restartDelay; out > 0 && ttl > out {
		return invalid("a TTL of %v outlives the restart delay of %v after a node's restart: raise "+
			"WithRestartDelay in "+
			"every process, or shorten the TTL", ttl, out)
	}
	return nil
}

// check returns the problems of one node, or nil. Each has the node's number.
func (n *node) check(ctx context.Context, ttl time.Duration) error {
	found, rest := locker.Findings(n.store.Check(ctx, ttl))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.twin != nil {
		return finding(FindingTwin, locker.Refuse, n.twin)
	}
	var all []error
	for _, f := range found {
		all = append(all, n.of(&f))
	}
	if rest != nil {
		all = append(all, n.of(rest))
	}
	return errors.Join(all...)
}

package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-lockguard/guard/locker"
)

// Finding is something that a check of the locker has found, with its Name, its
// Severity and what to change.
type Finding = locker.Finding //nolint:errname // a word of its own, and in Findings no error

// Severity says what a [Finding] means: [Refuse] or [Warn].
type Severity = locker.Severity

// The severities.
const (
	Refuse = locker.Refuse // leases would not be what is promised, or could not be had: Check returns it
	Warn   = locker.Warn   // something costs time, could not be looked at, or was accepted: only Findings tells it
)

// WithAccepted makes findings of these names warnings, so that Check passes
// with them: for what you know and will live with, such as "eviction" on a
// managed Redis whose policy cannot be changed. The package of the locker says
// which names there are. A name that the locker does not have is an
// ErrInvalidOption, unless the locker keeps its names to itself: a store
// outside of this module need not be a [locker.FindingNamer].
func WithAccepted(names ...string) Option {
	return optionFunc(func(c *config) error {
		if slices.Contains(names, "") {
			return fmt.Errorf("%w: the name of an accepted finding is empty", ErrInvalidOption)
		}
		c.accepted = slices.Concat(c.accepted, names)
		return nil
	})
}

// Check reports whether the locker can serve leases of g's TTL right now:
// reachable well within it, with all the rights it needs, no policy that drops
// keys, and client settings that keep the time limits. It is for start-up and
// readiness probes, makes several round trips, and ends when ctx does.
//
// The error joins what was found, each a *[Finding] of severity [Refuse] that
// says what to change (errors.As finds the first, [Guard.Findings] returns
// all), and is ErrUnavailable if the locker does not answer, which may pass by
// itself, or ErrClosed.
func (g *Guard) Check(ctx context.Context) error {
	found, err := g.Findings(ctx)
	var errs []error
	for _, f := range found {
		if f.Severity == Refuse {
			errs = append(errs, &f)
		}
	}
	if len(errs) == 0 {
		return err
	}
	return errors.Join(append(errs, err)...)
}

// Findings returns all that a check of the locker finds, warnings as well: for
// the log at start-up, and for people. It does what [Guard.Check] does; the
// error is that of a check that could not be made to its end.
func (g *Guard) Findings(ctx context.Context) ([]Finding, error) {
	g, err := g.resolve()
	if err != nil {
		return nil, err
	}
	if !g.family.engine.Enter() {
		return nil, ErrClosed
	}
	defer g.family.engine.Leave()
	found, err := locker.Findings(g.family.locker.Check(ctx, g.set.TTL))
	for i := range found {
		if slices.Contains(g.accepted, found[i].Name) {
			found[i].Severity = Warn
		}
	}
	return found, err
}

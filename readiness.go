package guard

import (
	"context"
	"errors"
	"slices"

	"github.com/go-lockguard/guard/locker"
)

// Finding is one result of a check of the locker. Its fields are Name, Severity
// and Text, which says what was found and what to change.
type Finding = locker.Finding //nolint:errname // a word of its own, and in Findings no error

// Severity says what a [Finding] means. It is [Refuse] or [Warn], and its
// String is "refuse" or "warn".
type Severity = locker.Severity

// The severities.
const (
	Refuse = locker.Refuse // leases would break their promise, or could not be had: Check returns it
	Warn   = locker.Warn   // it costs time, could not be looked at, or was accepted: only Findings returns it
)

// WithAcceptedFindings makes findings of these names warnings, so that Check
// passes with them. It is for findings that you know and accept, such as
// "eviction" on a managed Redis whose policy cannot be changed. The package of
// the locker lists the names, as constants that begin with Finding.
//
// A name that the locker does not have is an ErrInvalidOption. That needs a
// locker that tells its names by [locker.Capabilities]. Of a store outside of
// this module that does not, no name is refused.
func WithAcceptedFindings(names ...string) Option {
	return checked(!slices.Contains(names, ""), func(c *config) { c.accepted = slices.Concat(c.accepted, names) },
		"the name of an accepted finding is empty")
}

// Check reports whether the locker can serve leases of g's TTL right now. The
// store must be reachable well within the TTL and grant all the rights that the
// locker needs. It must have no policy that drops keys. The client's settings
// must keep the time limits. Check is for start-up and readiness probes. It
// makes several round trips, and ends when ctx does.
//
// The error joins the findings of severity [Refuse]. Each is a *[Finding] that
// says what to change. errors.As finds the first, and [Guard.Findings] returns
// all. The error is ErrUnavailable if the locker does not answer, which may
// pass by itself. It is ErrClosed if the guard is closed, and ErrInvalidOption
// if ctx is nil.
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

// Findings returns everything that a check of the locker finds, even warnings.
// It is for the log at start-up, and for people. It makes the same check as
// [Guard.Check]. It returns an error if the check could not be made to its end.
func (g *Guard) Findings(ctx context.Context) (found []Finding, err error) {
	err = g.visit(ctx, func(g *Guard) (err error) {
		found, err = locker.Findings(g.family.locker.Check(ctx, g.set.TTL))
		for i := range found {
			if slices.Contains(g.accepted, found[i].Name) {
				found[i].Severity = Warn
			}
		}
		return err
	})
	return found, err
}

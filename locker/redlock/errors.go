package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-lockguard/guard/locker"
)

var errNotOwner = fmt.Errorf("%w: redlock: a quorum of nodes does not have this owner any more", locker.ErrLeaseLost)

// unclear is an ErrUnavailable because of err.
func unclear(err error) error {
	if errors.Is(err, locker.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: redlock: %w", locker.ErrUnavailable, err)
}

// noQuorum is an ErrUnavailable because too few nodes have answered. Those that
// are pending may yet answer, which cannot help. It is an ErrSilent if so many
// are silent that the others are no quorum, and never an ErrUnsent.
func (l *Locker) noQuorum(answered, pending int, why []error) error {
	silent := 0
	for _, err := range why {
		if errors.Is(err, locker.ErrSilent) {
			silent++
		}
	}
	who := fmt.Sprintf("%d of %d nodes answered", answered, len(l.nodes))
	if pending > 0 {
		who = fmt.Sprintf("at most %d of %d nodes answer", answered+pending, len(l.nodes))
	}
	return fmt.Errorf("%w: redlock: %s, %d are needed: %w", locker.ErrUnavailable, who, l.quorum,
		together{reasons(why), len(l.nodes)-silent < l.quorum})
}

// together are the errors of several nodes. What one of them says of itself
// does not hold for all.
type together struct {
	err    error
	silent bool
}

func (t together) Error() string { return t.err.Error() }

// Is is called by [errors.Is].
func (t together) Is(target error) bool {
	if target == locker.ErrSilent {
		return t.silent
	}
	return target != locker.ErrUnsent && errors.Is(t.err, target)
}

// As is called by [errors.As].
func (t together) As(target any) bool { return errors.As(t.err, target) }

// of adds to an error the node that it is about.
func (n *node) of(err error) error { return fmt.Errorf("node %d: %w", n.number, err) }

// present returns the errors that are not nil.
func present(errs []error) []error {
	return slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
}

// reasons joins the errors of several nodes in one line.
type reasons []error

func (r reasons) Unwrap() []error { return r }

// Timeout says that it is no timeout of the whole request. A node has less time.
func (reasons) Timeout() bool { return false }

func (r reasons) Error() string {
	text := make([]string, len(r))
	for i, err := range r {
		text[i] = strings.ReplaceAll(err.Error(), locker.ErrUnavailable.Error()+": ", "")
	}
	return strings.Join(text, "; ")
}

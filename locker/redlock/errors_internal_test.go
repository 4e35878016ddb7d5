package redlock

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-lockguard/guard/locker"
)

// A quorum is silent only if the nodes that are not silent are no quorum.
func TestOneSilentNodeIsNoSilentQuorum(t *testing.T) {
	l := &Locker{nodes: make([]*node, 3), quorum: 2}
	silent := fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.ErrSilent)
	refused := &refusalError{}
	for n, why := range [][]error{{refused}, {silent, refused}, {silent, silent, refused}, {silent, silent, silent}} {
		err := l.noQuorum(3-len(why), 0, why)
		if got := errors.Is(err, locker.ErrSilent); got != (n > 1) {
			t.Errorf("%v: silent is %t", err, got)
		}
		var as *refusalError
		if !errors.Is(err, locker.ErrUnavailable) || n < 3 && !errors.As(err, &as) {
			t.Errorf("%v hides what it is", err)
		}
	}
}

// Law 8. A node that was asked may make the claim the owner there.
func TestOneUnsentNodeIsNoUnsentRequest(t *testing.T) {
	l := &Locker{nodes: make([]*node, 3), quorum: 2}
	unsent := fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.ErrUnsent)
	silent := fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.ErrSilent)
	for _, why := range [][]error{{unsent}, {unsent, unsent}, {unsent, silent}, {unsent, silent, silent}} {
		if err := l.noQuorum(3-len(why), 0, why); errors.Is(err, locker.ErrUnsent) {
			t.Errorf("%v is an ErrUnsent", err)
		}
	}
}

type refusalError struct{}

func (*refusalError) Error() string { return "refused" }

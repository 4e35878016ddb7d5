package redislocker

import (
	"errors"
	"testing"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// Law 3: a caller who is told that nothing was sent cleans nothing up.
func TestSeveralRequestsAreUnsentOnlyIfEachIs(t *testing.T) {
	unsent, lost := unclear(redisconn.ErrUnsent), unclear(errNoAnswer)
	for _, c := range []struct {
		errs   []error
		unsent bool
	}{
		{[]error{unsent}, true},
		{[]error{unsent, unsent}, true},
		{[]error{nil, unsent}, false},
		{[]error{unsent, lost}, false},
		{[]error{nil, lost}, false},
	} {
		err := joinErrors(c.errs)
		if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrUnsent) != c.unsent {
			t.Errorf("%v: %v", c.errs, err)
		}
	}
	if err := joinErrors([]error{nil, nil}); err != nil {
		t.Error(err)
	}
}

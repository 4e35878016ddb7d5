package turns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-lockguard/guard/locker"
)

func TestATimeoutDoesNotHideWhatTheStoreSaid(t *testing.T) {
	said := fmt.Errorf("%w: LOADING", locker.ErrUnavailable)
	slow := fmt.Errorf("%w: %w", locker.ErrUnavailable, os.ErrDeadlineExceeded)
	over := fmt.Errorf("%w: %w", locker.ErrUnavailable, context.DeadlineExceeded)
	for i, c := range []struct{ first, later, want error }{
		{nil, slow, slow},
		{said, slow, said},
		{said, over, said},
		{slow, said, said},
		{slow, over, over},
		{said, errors.ErrUnsupported, errors.ErrUnsupported},
	} {
		if got := moreTelling(c.first, c.later); !errors.Is(got, c.want) || !errors.Is(c.want, got) {
			t.Errorf("case %d: %v, want %v", i, got, c.want)
		}
	}
}

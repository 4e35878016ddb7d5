package turns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

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

// A server that answers opens nothing, nor does a process that slept through the
// answer.
func TestOnlyATryThatTookItsTimeHeardSilence(t *testing.T) {
	const limit = 500 * time.Millisecond
	slow := fmt.Errorf("%w: %w: %w", locker.ErrUnavailable, locker.ErrSilent, context.DeadlineExceeded)
	refused := fmt.Errorf("%w: %w: connection refused", locker.ErrUnavailable, locker.ErrSilent)
	for i, c := range []struct {
		err  error
		took time.Duration
		full bool
		want hearing
	}{
		{slow, limit, true, silent},
		{slow, limit - 5*time.Millisecond, true, silent}, // a limit may be as much shorter
		{slow, limit - 6*time.Millisecond, true, trouble},
		{slow, 0, true, trouble},
		{slow, limit + 99*time.Millisecond, true, silent},
		{slow, limit + 100*time.Millisecond, true, trouble},
		{slow, time.Hour, true, trouble},
		{slow, limit, false, nothing},
		{refused, 0, true, silent},
		{refused, time.Hour, true, trouble},
		{errors.Join(slow, locker.ErrUnsent), limit, true, trouble},
		{locker.ErrUnavailable, limit, true, trouble},
		{errors.New("NOPERM"), limit, true, refusal},
		{nil, limit, true, clearly},
	} {
		if got := heardByTry(c.err, c.took, limit, c.full); got != c.want {
			t.Errorf("case %d: heard %v, want %v", i, got, c.want)
		}
	}
}

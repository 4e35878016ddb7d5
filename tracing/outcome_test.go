package tracing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
)

func TestOutcomesOfErrors(t *testing.T) {
	ended := func(cause error) error {
		return fmt.Errorf("%w: %w: %w", guard.ErrNotAcquired, context.Canceled, cause)
	}
	for _, c := range []struct {
		err  error
		want outcome
	}{
		{&guard.HeldError{}, timeout},
		{fmt.Errorf("%w: 9 wait", guard.ErrQueueFull), queueFull},
		{ended(nil), canceled},
		{ended(guard.ErrLeaseLost), canceled}, // of another key
		{ended(guard.ErrUnavailable), canceled},
		{fmt.Errorf("%w: %w", guard.ErrUnavailable, context.DeadlineExceeded), unavailable},
		{guard.ErrClosed, closed},
		{guard.ErrMaxHold, lost},
		{guard.ErrNoLease, outerReleased},
		{errors.New("new"), otherError},
	} {
		if got := waitOutcome(guard.WaitInfo{}, guard.WaitResult{Err: c.err}); got != c.want {
			t.Errorf("outcome of %v is %v, want %v", c.err, got, c.want)
		}
	}
}

func TestEveryOutcomeIsDocumented(t *testing.T) {
	for _, file := range []string{"README.md", "doc.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for o := range outcomes {
			if o.String() == "" || !strings.Contains(string(text), o.String()) {
				t.Errorf("%s does not say what outcome %d, %q, is", file, o, o)
			}
		}
	}
}

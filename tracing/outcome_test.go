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

func TestOutcomesOfResults(t *testing.T) {
	for r, want := range map[guard.WaitResult]outcome{
		{Replayed: true}: replayed,
		{Joined: true}:   joined,
	} {
		if got := waitOutcome(guard.WaitInfo{}, r); got != want || got.failedWait() {
			t.Errorf("outcome of %+v is %v, an error: %t; want %v", r, got, got.failedWait(), want)
		}
	}
}

func TestOutcomesOfHolds(t *testing.T) {
	unconfirmed := fmt.Errorf("%w: %w", guard.ErrNotRecorded, guard.ErrUnavailable)
	for _, c := range []struct {
		r    guard.HoldResult
		want outcome
		bad  bool
	}{
		{guard.HoldResult{}, released, false},
		{guard.HoldResult{Recorded: true}, recorded, false},
		{guard.HoldResult{Err: unconfirmed}, notRecorded, true},
		{guard.HoldResult{Err: guard.ErrUnavailable}, unavailable, true},
		{guard.HoldResult{Err: guard.ErrLeaseLost}, lost, true},
		{guard.HoldResult{Panicked: true}, panicked, true},
	} {
		if got := holdOutcome(c.r); got != c.want || got.failedHold() != c.bad {
			t.Errorf("outcome of %+v is %v, an error: %t; want %v", c.r, got, got.failedHold(), c.want)
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

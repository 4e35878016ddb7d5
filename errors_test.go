package guard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
)

// A holder that was killed, or whose pace nobody here has seen, goes at the latest when its lease ends.
func TestWithoutAPaceTheHoldersLeaseSaysWhenToTryAgain(t *testing.T) {
	for _, left := range []time.Duration{0, 9100 * time.Millisecond} {
		if got := (&guard.HeldError{Remaining: left}).RetryAfter(); got != left {
			t.Errorf("%v left: got %v", left, got)
		}
	}
}

func TestErrMaxHoldNamesItsOption(t *testing.T) {
	if text := guard.ErrMaxHold.Error(); !strings.Contains(text, "WithMaxHold") {
		t.Errorf("got %q", text)
	}
}

package jobtest

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
)

// Waits records how waits ended, as the metrics do. It is an Observer of a
// guard that one goroutine uses.
type Waits struct {
	guard.NopObserver

	Errs []error
}

// WaitEnd records the end of a wait.
func (w *Waits) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) {
	w.Errs = append(w.Errs, r.Err)
}

// ExpectLog fails t for each of parts that is not in log, and empties log.
func ExpectLog(t testing.TB, log *bytes.Buffer, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %q:\n%s", part, log)
		}
	}
	log.Reset()
}

package lockmw_test

import (
	"log/slog"
	"os"
	"testing"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
)

func TestMain(m *testing.M) {
	if err := register(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
	os.Exit(0)
}

// every has a procedure of each kind.
var every = []string{buy, watch, gather, haggle}

var quiet = guard.WithLogger(slog.New(slog.DiscardHandler))

// want checks the answer to a call.
func want(t *testing.T, what string, err error, code connect.Code, reason string, retry bool) {
	t.Helper()
	if r := reply(err); r.Code != int(code) || r.Reason != reason || r.Retry != retry {
		t.Errorf("%s: got %+v, want %v %q, again %t", what, r, code, reason, retry)
	}
}

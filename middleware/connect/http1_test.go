package lockmw_test

import (
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

// A server of HTTP/1.1 hears of a client that has gone only after the end of
// the body. That comes late from a client that streams.
func TestAWaiterWhoseClientHasGoneLeavesTheQueueOverHTTP1(t *testing.T) {
	over1 := remote
	over1.Serve = func(t *testing.T, g *guard.Guard, h lockmwtest.RemoteHandler) lockmwtest.Methods {
		t.Helper()
		s := httptest.NewServer(mux(handler(h), connect.WithInterceptors(lockmw.Interceptor(rules(g)...))))
		t.Cleanup(s.Close)
		return lockmwtest.Methods{Locked: calls(s, buy, watch)}
	}
	lockmwtest.RunGone(t, over1)
}

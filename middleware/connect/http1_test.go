package lockmw_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

// A server of HTTP/1.1 hears of a client that has gone only after the end of
// the body. That comes late from a client that streams.
func TestAWaiterWhoseClientHasGoneLeavesTheQueueOverHTTP1(t *testing.T) {
	w := waits{began: make(chan struct{}, 1), ended: make(chan error, 1)}
	g := guardtest.New(t, guard.WithMaxWait(time.Hour), guard.WithObserver(w))
	g.Hold(guard.Key("stock", "42"))
	s := httptest.NewServer(mux(done, connect.WithInterceptors(lockmw.Interceptor(rules(g.Guard)...))))
	t.Cleanup(s.Close)
	for _, procedure := range []string{buy, watch} {
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { // ends with leave
			defer close(gone)
			_ = call(ctx, s, procedure, "42")
		}()
		<-w.began
		leave()
		if err := <-w.ended; !errors.Is(err, guard.ErrNotAcquired) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the wait ended with %v", procedure, err)
		}
		<-gone
	}
}

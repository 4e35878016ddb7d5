package lockmw_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

// A lock in the wrong place must not look like a lock.
func TestTheInterceptorInAClientIsRefused(t *testing.T) {
	g := guardtest.New(t)
	s := serve(t, func(context.Context, string) error { t.Error("it ran"); return nil })
	wrong := connect.WithInterceptors(lockmw.Interceptor(rules(g.Guard)...))
	for _, procedure := range every {
		want(t, procedure, call(t.Context(), s, procedure, "42", wrong), connect.CodeInternal, "", false)
	}
}

func TestTheInterceptorInAClientPassesCallsWithoutARule(t *testing.T) {
	s := serve(t, done)
	other := connect.WithInterceptors(lockmw.Interceptor(lockmw.Key(nil, price, key)))
	for _, procedure := range every {
		if err := call(t.Context(), s, procedure, "42", other); err != nil {
			t.Errorf("%s: %v", procedure, err)
		}
	}
}

func TestAStreamWithoutAMessageHasNoKey(t *testing.T) {
	g := guardtest.New(t)
	s := serve(t, func(context.Context, string) error { t.Error("it ran"); return nil }, rules(g.Guard)...)
	for protocol, opts := range protocols {
		_, err := client(s, gather, opts...).CallClientStream(t.Context()).CloseAndReceive()
		want(t, protocol, err, connect.CodeInvalidArgument, "LOCK_KEY_INVALID", false)
	}
}

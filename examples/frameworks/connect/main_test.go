package main

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTwoProceduresShareOneKeyInAllProtocols(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), guard.WithLogger(slog.New(slog.DiscardHandler)))
	var broken atomic.Bool
	s := httptest.NewUnstartedServer(handlers(g.Guard,
		func(ctx context.Context, req *connect.Request[request]) (*connect.Response[request], error) {
			if broken.Load() {
				panic("own")
			}
			return deduct(ctx, req)
		}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the panics
	s.StartTLS()
	defer s.Close()
	for name, protocol := range map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(), "grpc": connect.WithGRPC(), "grpc-web": connect.WithGRPCWeb(),
	} {
		for _, procedure := range []string{procedureDeduct, procedurePrice} {
			c := connect.NewClient[request, request](s.Client(), s.URL+procedure, protocol)
			call := func() error {
				_, err := c.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("42")))
				return err
			}
			if err := call(); err != nil {
				t.Errorf("%s%s: %v", name, procedure, err)
			}
			release := g.Hold(guard.Key("stock", "42"))
			if err := call(); connect.CodeOf(err) != connect.CodeAborted {
				t.Errorf("%s%s, held: got %v", name, procedure, err)
			}
			release()
			mend := g.Break()
			if err := call(); connect.CodeOf(err) != connect.CodeUnavailable {
				t.Errorf("%s%s, store down: got %v", name, procedure, err)
			}
			mend()
			broken.Store(true)
			if err := call(); err == nil {
				t.Errorf("%s%s: no error after a panic", name, procedure)
			}
			broken.Store(false)
			g.Hold(guard.Key("stock", "42"))() // fails if the key is still held
		}
	}
}

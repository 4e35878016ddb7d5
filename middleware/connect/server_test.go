package lockmw_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

// handler is the handler of every procedure of a test. Of a stream it gets the
// messages one by one.
type handler func(ctx context.Context, sku string) error

func done(context.Context, string) error { return nil }

func key(m *message) string { return lockmwtest.RemoteKey(m.GetValue()) }

func rules(g *guard.Guard) []lockmw.Rule {
	var all []lockmw.Rule
	for _, procedure := range []string{buy, price, watch, gather, haggle} {
		all = append(all, lockmw.Key(g, procedure, key))
	}
	return append(all,
		lockmw.Key(g, confuse, func(int) string { return "k" }),
		lockmw.Key(g, muddle, func(*wrapperspb.BytesValue) string { return "k" }),
		lockmw.Key(g, botch, func(*message) string { return lockmwtest.Misformatted }))
}

// serve serves h behind the rules over HTTP/2 and returns a client and its
// address.
func serve(t *testing.T, h handler, rules ...lockmw.Rule) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(mux(h, connect.WithInterceptors(lockmw.Interceptor(rules...))))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // panics of handlers
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func mux(h handler, opts ...connect.HandlerOption) *http.ServeMux {
	m := http.NewServeMux()
	for _, procedure := range []string{buy, price, look, confuse, botch} {
		m.Handle(procedure, connect.NewUnaryHandler(procedure,
			func(ctx context.Context, req *connect.Request[message]) (*connect.Response[message], error) {
				return connect.NewResponse(req.Msg), h(ctx, req.Msg.GetValue())
			}, opts...))
	}
	m.Handle(watch, connect.NewServerStreamHandler(watch,
		func(ctx context.Context, req *connect.Request[message], s *connect.ServerStream[message]) error {
			return errors.Join(s.Send(req.Msg), h(ctx, req.Msg.GetValue()))
		}, opts...))
	m.Handle(gather, connect.NewClientStreamHandler(gather,
		func(ctx context.Context, s *connect.ClientStream[message]) (*connect.Response[message], error) {
			for s.Receive() {
				if err := h(ctx, s.Msg().GetValue()); err != nil {
					return nil, err
				}
			}
			return connect.NewResponse(new(message)), s.Err()
		}, opts...))
	for _, procedure := range []string{haggle, muddle} {
		m.Handle(procedure, connect.NewBidiStreamHandler(procedure,
			func(ctx context.Context, s *connect.BidiStream[message, message]) error {
				for {
					m, err := s.Receive()
					if err != nil {
						return nil //nolint:nilerr // hides why, as some handlers do
					}
					if err := errors.Join(s.Send(m), h(ctx, m.GetValue())); err != nil {
						return err
					}
				}
			}, opts...))
	}
	return m
}

// protocols are the options of a client for the protocols of a handler.
var protocols = map[string][]connect.ClientOption{
	"connect": nil, "json": {connect.WithProtoJSON()},
	"grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()},
}

func client(s *httptest.Server, procedure string, opts ...connect.ClientOption) *connect.Client[message, message] {
	return connect.NewClient[message, message](s.Client(), s.URL+procedure, opts...)
}

// call calls a procedure of any kind with one message and returns its error.
func call(ctx context.Context, s *httptest.Server, procedure, sku string, opts ...connect.ClientOption) error {
	c, m := client(s, procedure, opts...), wrapperspb.String(sku)
	switch procedure {
	case watch:
		stream, err := c.CallServerStream(ctx, connect.NewRequest(m))
		if err != nil {
			return err
		}
		for stream.Receive() {
		}
		return errors.Join(stream.Err(), stream.Close())
	case gather:
		stream := c.CallClientStream(ctx)
		_ = stream.Send(m) // an error of the handler comes from the end
		_, err := stream.CloseAndReceive()
		return err
	case haggle, muddle:
		stream := c.CallBidiStream(ctx)
		_ = stream.Send(m)
		_ = stream.CloseRequest()
		for {
			if _, err := stream.Receive(); err != nil {
				_ = stream.CloseResponse()
				if errors.Is(err, io.EOF) {
					err = nil
				}
				return err
			}
		}
	}
	_, err := c.CallUnary(ctx, connect.NewRequest(m))
	return err
}

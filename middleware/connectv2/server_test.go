package lockmw_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	lockmw "github.com/go-lockguard/guard/middleware/connectv2"
)

type message = wrapperspb.StringValue

// The procedures of a handwritten service with strings as messages.
const (
	buy     = "/shop.Stock/Buy"
	price   = "/shop.Stock/Price"   // the same key as buy
	watch   = "/shop.Stock/Watch"   // one message, a stream of answers
	gather  = "/shop.Stock/Gather"  // a stream of messages, one answer
	haggle  = "/shop.Stock/Haggle"  // a stream both ways
	look    = "/shop.Stock/Look"    // without a rule
	confuse = "/shop.Stock/Confuse" // a rule for messages of another type
	botch   = "/shop.Stock/Botch"   // a rule whose key is a Sprintf gone wrong
)

// every has a procedure of each kind.
var every = []string{buy, watch, gather, haggle}

// kinds are the procedures of the service.
var kinds = map[string]connect.StreamType{
	buy: connect.StreamTypeUnary, price: connect.StreamTypeUnary, look: connect.StreamTypeUnary,
	confuse: connect.StreamTypeUnary, botch: connect.StreamTypeUnary,
	watch: connect.StreamTypeServer, gather: connect.StreamTypeClient, haggle: connect.StreamTypeBidi,
}

// schema returns the schema of a procedure, as generated code has it.
func schema(procedure string) protoreflect.MethodDescriptor {
	input := new(".google.protobuf.StringValue")
	method := &descriptorpb.MethodDescriptorProto{
		Name: new(procedure[len("/shop.Stock/"):]), InputType: input, OutputType: input,
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("shop.proto"), Package: new("shop"), Syntax: new("proto3"),
		Dependency: []string{wrapperspb.File_google_protobuf_wrappers_proto.Path()},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: new("Stock"), Method: []*descriptorpb.MethodDescriptorProto{method},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		panic(err)
	}
	return file.Services().Get(0).Methods().Get(0)
}

func spec(procedure string) connect.Spec {
	return connect.Spec{Procedure: procedure, StreamType: kinds[procedure], Schema: schema(procedure)}
}

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
		lockmw.Key(g, confuse, func(*wrapperspb.BytesValue) string { return "k" }),
		lockmw.Key(g, botch, func(*message) string { return lockmwtest.Misformatted }))
}

// registered returns a server of the service, with a handler as generated code
// makes it for each kind.
func registered(h handler, interceptors ...connect.ServerInterceptor) *connect.Server {
	s := connect.NewServer(interceptors...)
	for procedure, kind := range kinds {
		s.Register(connect.Method{Spec: spec(procedure), Handler: func(
			ctx context.Context, _ connect.Spec, stream connect.ServerStream,
		) error {
			last := new(message)
			for {
				m := new(message)
				err := stream.Receive(m)
				if errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					return err
				}
				if kind&connect.StreamTypeServer != 0 {
					if err := stream.Send(m); err != nil {
						return err
					}
				}
				if err := h(ctx, m.GetValue()); err != nil {
					return err
				}
				if last = m; kind&connect.StreamTypeClient == 0 {
					break
				}
			}
			if kind&connect.StreamTypeServer == 0 {
				return stream.Send(last)
			}
			return nil
		}})
	}
	return s
}

// serve serves h behind the rules over HTTP/2 and returns a client for each
// protocol.
func serve(t *testing.T, h handler, rules ...lockmw.Rule) map[string]*connect.Client {
	t.Helper()
	mux := http.NewServeMux()
	connecthttp.Mount(mux, registered(h, lockmw.Interceptor(rules...)))
	s := httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // panics of handlers
	s.StartTLS()
	t.Cleanup(s.Close)
	clients := map[string]*connect.Client{}
	for protocol, opts := range map[string][]connecthttp.Option{
		"connect": nil, "json": {connecthttp.WithSendCodec("json")},
		"grpc": {connecthttp.WithGRPC()}, "grpc-web": {connecthttp.WithGRPCWeb()},
	} {
		clients[protocol] = connect.NewClient(connecthttp.NewTransport(s.Client(), s.URL, opts...))
	}
	return clients
}

// call calls a procedure of any kind with one message and returns its error.
func call(ctx context.Context, c *connect.Client, procedure, sku string) error {
	if kinds[procedure] == connect.StreamTypeUnary {
		return c.CallUnary(ctx, spec(procedure), wrapperspb.String(sku), new(message))
	}
	s, err := c.CallClientStream(ctx, spec(procedure))
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	_ = s.Send(wrapperspb.String(sku)) // an error of the handler comes from the end
	_ = s.CloseSend()
	for {
		if err := s.Receive(new(message)); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

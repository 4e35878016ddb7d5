package main

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/go-kratos/kratos/v3/transport/grpc"
	ggrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	grpclock "github.com/go-lockguard/guard/middleware/grpc"
)

const watch = "/shop.Stock/Watch"

// As package kratos says: its middleware is not for streams, but the
// interceptor of middleware/grpc is.
func TestAStreamHoldsTheKeyByTheInterceptorForGRPC(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	rule := grpclock.Key(g.Guard, watch, func(req *request) string { return guard.Key("stock", req.GetValue()) })
	s := grpc.NewServer(grpc.Address("127.0.0.1:0"), grpc.StreamInterceptor(grpclock.Stream(rule)))
	registerStream(s)
	if err := grpclock.Verify(s, rule); err != nil {
		t.Fatal(err)
	}
	conn, err := ggrpc.NewClient(start(t, s), ggrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })

	stream, err := open(t.Context(), conn, "42")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), conn, "42"); status.Code(err) != codes.Aborted {
		t.Errorf("meanwhile: got %v", err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if err := stream.RecvMsg(new(request)); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
	g.Hold(guard.Key("stock", "42"))() // fails if the key is still held
}

// open opens a stream and returns when it has the answer to its first message.
func open(ctx context.Context, conn *ggrpc.ClientConn, sku string) (ggrpc.ClientStream, error) {
	s, err := conn.NewStream(ctx, &ggrpc.StreamDesc{ServerStreams: true, ClientStreams: true}, watch)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.SendMsg(wrapperspb.String(sku)), s.RecvMsg(new(request)))
}

// registerStream registers a stream that answers each message with itself.
func registerStream(s *grpc.Server) {
	s.RegisterService(&ggrpc.ServiceDesc{ServiceName: "shop.Stock", Streams: []ggrpc.StreamDesc{{
		StreamName: short(watch), ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, ss ggrpc.ServerStream) error {
			for {
				m := new(request)
				if err := ss.RecvMsg(m); err != nil {
					if errors.Is(err, io.EOF) {
						return nil
					}
					return err
				}
				if err := ss.SendMsg(m); err != nil {
					return err
				}
			}
		},
	}}}, nil)
}

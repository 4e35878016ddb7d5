package main

import (
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestASkuIsBoughtByOneCallAtATime(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	s, err := newServer(g.Guard, stock{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }() // ends with Stop
	defer func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	client, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	buy := func(sku string) codes.Code {
		return status.Code(client.Invoke(t.Context(), buyMethod, wrapperspb.String(sku), new(emptypb.Empty)))
	}
	release := g.Hold(guard.Key("stock", "42")) // by another instance
	if got := buy("42"); got != codes.Aborted {
		t.Errorf("while it is held: %v, want Aborted", got)
	}
	if got := buy("43"); got != codes.OK {
		t.Errorf("another sku: %v", got)
	}
	release()
	if got := buy("42"); got != codes.OK {
		t.Errorf("once it is free: %v", got)
	}
	if got := buy(""); got != codes.InvalidArgument {
		t.Errorf("without a sku: %v, want InvalidArgument", got)
	}
}

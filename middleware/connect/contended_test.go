package lockmw_test

import (
	"errors"
	"io"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

func TestAStreamHoldsTheKeyOfItsFirstMessageUntilItsHandlerReturns(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), quiet)
	s := serve(t, done, rules(g.Guard)...)
	for protocol, opts := range protocols {
		stream := client(s, haggle, opts...).CallBidiStream(t.Context())
		for _, sku := range []string{"42", "another"} { // the second has no lock of its own
			if err := stream.Send(wrapperspb.String(sku)); err != nil {
				t.Fatalf("%s: %v", protocol, err)
			}
			if m, err := stream.Receive(); err != nil || m.GetValue() != sku {
				t.Fatalf("%s: got %v, %v", protocol, m, err)
			}
		}
		want(t, protocol+", meanwhile", call(t.Context(), s, buy, "42"), connect.CodeAborted, "LOCK_HELD", true)
		if err := call(t.Context(), s, buy, "another"); err != nil {
			t.Errorf("%s, another key: %v", protocol, err)
		}
		if err := stream.CloseRequest(); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
		if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: ended with %v", protocol, err)
		}
		_ = stream.CloseResponse()
		g.Hold(guard.Key("stock", "42"))() // fails if the key is still held
	}
}

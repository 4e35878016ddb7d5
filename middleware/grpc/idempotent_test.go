package lockmw_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
)

func tenant(ctx context.Context) (string, error) {
	if v := metadata.ValueFromIncomingContext(ctx, "tenant"); len(v) == 1 {
		return v[0], nil
	}
	return "", nil
}

// The handler's own headers and trailers go with its first answer alone, be it
// a response or an error. A message above the server's limit is no call.
func TestOwnHeadersAreNotReplayed(t *testing.T) {
	own := error(nil)
	rule := lockmw.Idempotent(newGuard(t, memlocker.New()), buy, tenant, time.Hour)
	c := dialServer(t, &shop{buy: func(ctx context.Context) error {
		_ = grpc.SetHeader(ctx, metadata.Pairs("own", "header"))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("own", "trailer"))
		return own
	}}, grpc.NewServer(grpc.MaxRecvMsgSize(100), grpc.UnaryInterceptor(lockmw.Unary(rule))))
	for _, row := range []struct {
		key, text string
		own       error
		code      codes.Code
		md        string
	}{
		{"k", "10", nil, codes.OK, "header trailer"},
		{"k", "10", nil, codes.OK, ""},
		{"long", strings.Repeat("x", 200), nil, codes.ResourceExhausted, ""},
		{"no", "10", status.Error(codes.NotFound, "no lamp"), codes.NotFound, "header trailer"},
		{"no", "10", nil, codes.NotFound, ""},
	} {
		own = row.own
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant", "ann", "idempotency-key", row.key)
		var header, trailer metadata.MD
		err := c.Invoke(ctx, buy, wrapperspb.String(row.text), new(message),
			grpc.Header(&header), grpc.Trailer(&trailer))
		if md := strings.Join(append(header.Get("own"), trailer.Get("own")...), " "); status.Code(err) != row.code ||
			md != row.md {
			t.Errorf("%s: got %v, %q, want %v, %q", row.key, err, md, row.code, row.md)
		}
	}
}

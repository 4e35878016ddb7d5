package lockmw_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

// BenchmarkOverhead measures the cost of a rule: the difference of guarded and
// bare.
func BenchmarkOverhead(b *testing.B) {
	g, err := guard.New(memlocker.New())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(b.Context())) }()
	body, err := proto.Marshal(wrapperspb.String("42"))
	if err != nil {
		b.Fatal(err)
	}
	for name, opts := range map[string][]connect.HandlerOption{
		"bare": nil, "guarded": {connect.WithInterceptors(lockmw.Interceptor(lockmw.Key(g, buy, key)))},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			m := mux(done, opts...)
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, buy, bytes.NewReader(body))
				req.Header.Set("Content-Type", "application/proto")
				w := httptest.NewRecorder()
				if m.ServeHTTP(w, req); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}

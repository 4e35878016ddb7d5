package lockmw_test

import (
	"context"
	"testing"

	"github.com/go-kratos/kratos/v3/transport"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/kratos"
)

// call42 is a call of buy as a server has it in the context.
type call42 struct{ transport.Transporter }

func (call42) Operation() string { return buy }

// BenchmarkOverhead measures the cost of a rule: the difference of guarded and
// bare.
func BenchmarkOverhead(b *testing.B) {
	g, err := guard.New(memlocker.New())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(b.Context())) }()
	ctx := transport.NewServerContext(b.Context(), call42{})
	next := func(_ context.Context, req any) (any, error) { return req, nil }
	for name, rules := range map[string][]lockmw.Rule{"bare": nil, "guarded": {lockmw.Key(g, buy, key)}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			h := lockmw.Server(rules...)(next)
			req := wrapperspb.String("42")
			for b.Loop() {
				if _, err := h(ctx, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

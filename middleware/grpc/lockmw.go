package lockmw

import (
	"context"

	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/rpcrule"
)

// Rule says by which key the calls of one method are locked. [Key] and
// [KeyFunc] make one. It is safe for concurrent use.
type Rule struct{ r *rpcrule.Rule }

// Key locks the calls of method, a full name like "/shop.Stock/Buy", by the key
// that the given function makes of the request message: of guard.Key alone,
// never of a concatenation. An empty key says that the client has left a value
// out. A nil g is the default guard, looked up at each call; for a method's own
// settings pass g.With(...). It panics if method is no full name, or key is
// nil. [Verify] finds names that the server does not have.
func Key[M any](g *guard.Guard, method string, key func(message M) string) Rule {
	return KeyFunc(g, method, rpcrule.OfMessage(key))
}

// KeyFunc is [Key] with a function that also sees the call's context, for who
// calls or metadata. An error of it ends the call, as it is unless it is one of
// keyfunc or guard.
func KeyFunc[M any](g *guard.Guard, method string, key func(ctx context.Context, message M) (string, error)) Rule {
	return Rule{rpcrule.New(g, method, key)}
}

// Unary returns an interceptor for the methods of rules that take one message
// and give one. It waits for the key for at most MaxWait and runs the handler
// under the lease, whose loss ends the handler's context. It panics if a method
// has two rules.
func Unary(rules ...Rule) grpc.UnaryServerInterceptor {
	byMethod := index(rules)
	for _, r := range byMethod {
		r.Unary.Store(true)
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (resp any, err error) {
		r, locked := byMethod[info.FullMethod]
		if !locked {
			return handler(ctx, req)
		}
		resp, err = rpcrule.Run(ctx, r.Guard, r, req,
			func(ctx context.Context) (any, error) { return handler(ctx, req) })
		return resp, answer(ctx, r, err)
	}
}

// Stream returns an interceptor for the methods of rules that stream. Receiving
// the first message waits for the key, for at most MaxWait, and the lease lasts
// until the handler returns. It panics if a method has two rules.
func Stream(rules ...Rule) grpc.StreamServerInterceptor {
	byMethod := index(rules)
	for _, r := range byMethod {
		r.Stream.Store(true)
	}
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		r, locked := byMethod[info.FullMethod]
		if !locked {
			return handler(srv, ss)
		}
		s := &stream{ServerStream: ss, rule: r}
		return answer(ss.Context(), r, s.serve(func() error { return handler(srv, s) }))
	}
}

func index(rules []Rule) map[string]*rpcrule.Rule {
	inner := make([]*rpcrule.Rule, len(rules))
	for i, r := range rules {
		inner[i] = r.r
	}
	return rpcrule.Index(inner)
}

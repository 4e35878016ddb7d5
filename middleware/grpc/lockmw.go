package lockmw

import (
	"context"

	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/rpcguard"
)

// Rule defines the key by which the calls of one method are locked. [Key] and
// [KeyFunc] make one. Rule is safe for concurrent use.
type Rule struct{ r *rpcguard.Rule }

func (r Rule) inner() *rpcguard.Rule { return r.r }

// Key locks the calls of method by the key that the given function makes of the
// request message. method is a full name like "/shop.Stock/Buy". The function
// must make the key with guard.Key, never by concatenation. An empty key means
// that the client has left a value out.
//
// A nil g is the default guard, looked up at each call. For a method's own
// settings pass g.With(...). Key panics if method is no full name, or key is
// nil. [Verify] finds names that the server does not have.
func Key[M any](g *guard.Guard, method string, key func(message M) string) Rule {
	return KeyFunc(g, method, rpcguard.OfMessage(key))
}

// KeyFunc is [Key] with a function that also gets the call's context, for the
// identity of the caller or metadata. If the function returns an error the call
// ends with it. Errors of keyfunc or guard become a status, all others are
// returned unchanged.
func KeyFunc[M any](g *guard.Guard, method string, key func(ctx context.Context, message M) (string, error)) Rule {
	return Rule{rpcguard.New(g, method, key)}
}

// KeysFunc is [KeyFunc] with a function that makes all keys of the call, such
// as those of all items of a cart. The handler runs under all the leases, and
// guard.LeaseOf finds each. The keys are taken as [guard.Guard.DoAll] takes
// them, each once. A call with more than 64 keys is refused with
// InvalidArgument, as is one without keys.
//
// The method must be unary. In the handler of a stream use DoAll.
func KeysFunc[M any](
	g *guard.Guard, method string, keys func(ctx context.Context, message M) ([]string, error),
) Rule {
	return Rule{rpcguard.NewSeveral(g, method, keys)}
}

// Unary returns an interceptor for the unary methods of rules. Unary waits for
// the key for at most MaxWait and runs the handler under the lease. The
// handler's context ends when the lease is lost. Unary panics if a method has
// two rules.
func Unary(rules ...Rule) grpc.UnaryServerInterceptor {
	byMethod := rpcguard.Index(rules, Rule.inner)
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
		if r.Serve != nil {
			return r.Serve(ctx, r.Guard, req, func(ctx context.Context) (any, error) { return handler(ctx, req) })
		}
		resp, err = rpcguard.Run(ctx, r.Guard, r, req,
			func(ctx context.Context) (any, error) { return handler(ctx, req) })
		return resp, answer(ctx, r, err)
	}
}

// Stream returns an interceptor for the streaming methods of rules. The receipt
// of the first message waits for the key, for at most MaxWait. The lease lasts
// until the handler returns. Stream panics if a method has two rules or a rule
// of [KeysFunc] or [Idempotent].
func Stream(rules ...Rule) grpc.StreamServerInterceptor {
	byMethod := rpcguard.Index(rules, Rule.inner)
	for _, r := range byMethod {
		httpguard.PanicIf(r.Keys != nil, "the rule for %q has several keys, so the method must be unary: "+
			"call DoAll in its handler", r.Method)
		httpguard.PanicIf(r.Serve != nil,
			"the rule for %q is one of Idempotent, so the method must be unary", r.Method)
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

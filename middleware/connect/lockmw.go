package lockmw

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/rpcguard"
)

// Rule defines the key by which the calls of one procedure are locked. [Key]
// and [KeyFunc] make one. Rule is safe for concurrent use.
type Rule struct {
	r        *rpcguard.Rule
	response proto.Message // of [Idempotent]; else nil
}

func (r Rule) inner() *rpcguard.Rule { return r.r }

// Key locks the calls of procedure by the key that the given function makes of
// the request message. procedure is a full name like "/shop.Stock/Buy", the
// constant that the generated code has for it. The function must make the key
// with guard.Key, never by concatenation. An empty key means that the client
// has left a value out.
//
// A nil g is the default guard, looked up at each call. For a procedure's own
// settings pass g.With(...). Key panics if procedure is no full name, or key is
// nil. [Verify] finds names that no service has.
func Key[M any](g *guard.Guard, procedure string, key func(message M) string) Rule {
	return KeyFunc(g, procedure, rpcguard.OfMessage(key))
}

// KeyFunc is [Key] with a function that also gets the call's context, for the
// identity of the caller. If the function returns an error the call ends with
// it. Errors of keyfunc or guard become an error of this package's table, all
// others are returned unchanged.
func KeyFunc[M any](g *guard.Guard, procedure string, key func(ctx context.Context, message M) (string, error)) Rule {
	return Rule{r: rpcguard.New(g, procedure, key)}
}

// KeysFunc is [KeyFunc] with a function that makes all keys of the call, such
// as those of all items of a cart. The handler runs under all the leases, and
// guard.LeaseOf finds each. The keys are taken as [guard.Guard.DoAll] takes
// them, each once. A call with more than 64 keys is refused with
// InvalidArgument, as is one without keys.
func KeysFunc[M any](
	g *guard.Guard, procedure string, keys func(ctx context.Context, message M) ([]string, error),
) Rule {
	return Rule{r: rpcguard.NewSeveral(g, procedure, keys)}
}

// Interceptor returns an interceptor for the handlers of rules, unary and
// streaming. Interceptor waits for the key for at most MaxWait and runs the
// handler under the lease. The handler's context ends when the lease is lost.
//
// Give it to handlers only. In a client the calls of a procedure with a rule
// fail, because a client's lock would make the server's wait. Interceptor
// panics if a procedure has two rules.
func Interceptor(rules ...Rule) connect.Interceptor {
	return interceptor(rpcguard.Index(rules, Rule.inner))
}

// interceptor has the rules by their procedures.
type interceptor map[string]*rpcguard.Rule

// WrapUnary implements [connect.Interceptor].
func (i interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	for _, r := range i {
		r.Unary.Store(true)
	}
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		r, locked := i[req.Spec().Procedure]
		switch {
		case !locked:
			return next(ctx, req)
		case req.Spec().IsClient:
			return nil, errInClient()
		case r.Serve != nil:
			return serve(ctx, r, req, next)
		}
		resp, err := rpcguard.Run(ctx, r.Guard, r, req.Any(),
			func(ctx context.Context) (connect.AnyResponse, error) { return next(ctx, req) })
		if err != nil {
			return nil, answer(ctx, r, err)
		}
		return resp, nil
	}
}

// serve serves req by a rule of [Idempotent].
func serve(
	ctx context.Context, r *rpcguard.Rule, req connect.AnyRequest, next connect.UnaryFunc,
) (connect.AnyResponse, error) {
	resp, err := r.Serve(ctx, r.Guard, req, func(ctx context.Context) (any, error) { return next(ctx, req) })
	if err != nil {
		return nil, err
	}
	return resp.(connect.AnyResponse), nil
}

// WrapStreamingHandler implements [connect.Interceptor].
func (i interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	for _, r := range i {
		r.Stream.Store(true)
	}
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		r, locked := i[conn.Spec().Procedure]
		if !locked {
			return next(ctx, conn)
		}
		if r.Serve != nil {
			return answer(ctx, r, rpcguard.ErrStreams)
		}
		s := &stream{StreamingHandlerConn: conn}
		if err := s.receiveFirst(r.Type); err != nil {
			return answer(ctx, r, err)
		}
		_, err := rpcguard.Run(ctx, r.Guard, r, s.first.Message, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, s.first.RefusedOr(next(ctx, s))
		})
		return answer(ctx, r, err)
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (i interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		if _, locked := i[spec.Procedure]; locked {
			return refusing{conn}
		}
		return conn
	}
}

package lockmw

import (
	"context"

	"connectrpc.com/connect/v2"
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
// nil. [Verify] finds names that the server does not have.
func Key[M proto.Message](g *guard.Guard, procedure string, key func(message M) string) Rule {
	return KeyFunc(g, procedure, rpcguard.OfMessage(key))
}

// KeyFunc is [Key] with a function that also gets the call's context, for the
// identity of the caller. If the function returns an error the call ends with
// it. Errors of keyfunc or guard become an error of this package's table, all
// others are returned unchanged.
func KeyFunc[M proto.Message](
	g *guard.Guard, procedure string, key func(ctx context.Context, message M) (string, error),
) Rule {
	return Rule{r: rpcguard.New(g, procedure, key)}
}

// KeysFunc is [KeyFunc] with a function that makes all keys of the call, such
// as those of all items of a cart. The handler runs under all the leases, and
// guard.LeaseOf finds each. The keys are taken as [guard.Guard.DoAll] takes
// them, each once. A call with more than 64 keys is refused with
// InvalidArgument, as is one without keys.
func KeysFunc[M proto.Message](
	g *guard.Guard, procedure string, keys func(ctx context.Context, message M) ([]string, error),
) Rule {
	return Rule{r: rpcguard.NewSeveral(g, procedure, keys)}
}

// Interceptor returns an interceptor for a server, unary and streaming. For a
// call with a rule it waits for the key for at most MaxWait and runs the
// handler under the lease. The handler's context ends when the lease is lost.
// Interceptor panics if a procedure has two rules.
func Interceptor(rules ...Rule) connect.ServerInterceptor {
	byProcedure := rpcguard.Index(rules, Rule.inner)
	return func(next connect.ServerFunc) connect.ServerFunc {
		for _, r := range byProcedure {
			r.Unary.Store(true)
		}
		return func(ctx context.Context, spec connect.Spec, conn connect.ServerStream) error {
			r, locked := byProcedure[spec.Procedure]
			if !locked {
				return next(ctx, spec, conn)
			}
			return answer(ctx, r, run(ctx, r, spec, conn, next))
		}
	}
}

// run runs a call by its rule, and sends its response if it has one only.
func run(
	ctx context.Context, r *rpcguard.Rule, spec connect.Spec, conn connect.ServerStream, next connect.ServerFunc,
) error {
	if r.Serve != nil && spec.StreamType != connect.StreamTypeUnary {
		return rpcguard.ErrStreams
	}
	s := &stream{ServerStream: conn, single: spec.StreamType&connect.StreamTypeServer == 0}
	var err error
	if s.first, err = rpcguard.ReceiveFirst(r.Type, conn.Receive); err != nil {
		return err
	}
	handler := func(ctx context.Context) (any, error) {
		err := s.first.RefusedOr(next(ctx, spec, s))
		return s.response, err
	}
	if r.Serve != nil {
		s.response, err = r.Serve(ctx, r.Guard, s.first.Message, handler)
	} else {
		_, err = rpcguard.Run(ctx, r.Guard, r, s.first.Message, handler)
	}
	if err != nil || s.response == nil {
		return err
	}
	return conn.Send(s.response)
}

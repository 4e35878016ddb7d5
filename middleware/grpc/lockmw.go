package lockmw

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/outcome"
)

// Rule says by which key the calls of one method are locked. [Key] and [KeyFunc] make one. It is safe for concurrent use.
type Rule struct {
	guard  *guard.Guard
	method string
	key    func(ctx context.Context, message any) (string, error)
	placed *placement // for Verify
}

// Key locks the calls of method, a full name like "/shop.Stock/Buy", by the key that the given function makes of the request
// message: of guard.Key alone, never of a concatenation. An empty key says that the client has left a value out. A nil g is the
// default guard, looked up at each call; for a method's own settings pass g.With(...). It panics if method is no full name, or key
// is nil. [Verify] finds names that the server does not have.
func Key[M any](g *guard.Guard, method string, key func(message M) string) Rule {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return KeyFunc(g, method, func(_ context.Context, message M) (string, error) { return key(message), nil })
}

// KeyFunc is [Key] with a function that also sees the call's context, for who calls or metadata. An error of it ends the call,
// as it is unless it is one of keyfunc or guard.
func KeyFunc[M any](g *guard.Guard, method string, key func(ctx context.Context, message M) (string, error)) Rule {
	if _, _, ok := split(method); !ok {
		panic(fmt.Sprintf("lockmw: method %q is no full name like \"/shop.Stock/Buy\"", method))
	}
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return Rule{guard: g, method: method, placed: new(placement), key: func(ctx context.Context, message any) (string, error) {
		m, ok := message.(M)
		if !ok {
			return "", &keyfunc.Error{Source: "message", Name: fmt.Sprintf("%T", message), Err: keyfunc.ErrNoSource}
		}
		name, err := key(ctx, m)
		if err == nil && name == "" {
			err = &keyfunc.Error{Source: "message", Err: keyfunc.ErrMissing}
		}
		return name, err
	}}
}

// Unary returns an interceptor for the methods of rules that take one message and give one. It waits for the key for at most
// MaxWait and runs the handler under the lease, whose loss ends the handler's context. It panics if a method has two rules.
func Unary(rules ...Rule) grpc.UnaryServerInterceptor {
	byMethod := index(rules)
	for _, r := range rules {
		r.placed.unary.Store(true)
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		r, locked := byMethod[info.FullMethod]
		if !locked {
			return handler(ctx, req)
		}
		key, err := r.key(ctx, req)
		if err != nil {
			return nil, r.answer(ctx, err)
		}
		called := false
		resp, err = guard.Call(ctx, r.guard, key, func(ctx context.Context) (any, error) {
			called = true
			return handler(ctx, req)
		})
		if !called {
			err = tooLong(key, err)
		}
		return resp, r.answer(ctx, err)
	}
}

// Stream returns an interceptor for the methods of rules that stream. Receiving the first message waits for the key, for at
// most MaxWait, and the lease lasts until the handler returns. It panics if a method has two rules.
func Stream(rules ...Rule) grpc.StreamServerInterceptor {
	byMethod := index(rules)
	for _, r := range rules {
		r.placed.stream.Store(true)
	}
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		r, locked := byMethod[info.FullMethod]
		if !locked {
			return handler(srv, ss)
		}
		s := &stream{ServerStream: ss, rule: r}
		return r.answer(ss.Context(), s.serve(func() error { return handler(srv, s) }))
	}
}

func index(rules []Rule) map[string]Rule {
	byMethod := make(map[string]Rule, len(rules))
	for _, r := range rules {
		if _, twice := byMethod[r.method]; twice || r.method == "" {
			panic(fmt.Sprintf("lockmw: method %q has two rules, or none that Key made", r.method))
		}
		byMethod[r.method] = r
	}
	return byMethod
}

// tooLong says of a key that guard refuses that its value comes from the client. "%!" comes from a key function that
// misuses fmt.
func tooLong(key string, err error) error {
	if errors.Is(err, guard.ErrInvalidKey) && !strings.Contains(key, "%!") {
		return fmt.Errorf("%w: %w", keyfunc.ErrInvalid, err)
	}
	return err
}

// answer is what the client gets for err.
func (r Rule) answer(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if o, _ := outcome.Of(ctx, err); o.Code == outcome.Misconfigured { // the client is not told more
		r.guard.Logger().ErrorContext(ctx, "guard: the lock of a method is misconfigured",
			"guard", r.guard.Name(), "method", r.method, "error", err)
	}
	return answer(ctx, err)
}

package lockmw

import (
	"context"
	"time"

	"github.com/go-kratos/kratos/v3/middleware"
	"github.com/go-kratos/kratos/v3/transport"
	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/rpcguard"
)

// defaults are the settings without options.
var defaults = rpcguard.Settings{MaxWait: 500 * time.Millisecond}

// Rule defines the key by which the calls of one operation are locked. [Key]
// and [KeyFunc] make one. Rule is safe for concurrent use.
type Rule struct {
	r     *rpcguard.Rule
	waits *httpguard.Waits
}

func (r Rule) inner() *rpcguard.Rule { return r.r }

// Option changes how a rule locks.
type Option interface{ waitOption }

// IdempotentOption is an option of [Idempotent]. Each Option is one, and so is
// each of package rpcopt.
type IdempotentOption interface{ anyOption }

type (
	anyOption  = rpcguard.Option
	waitOption = rpcguard.WaitOption
)

// WithMaxWait limits the wait of a call if the guard's MaxWait is longer. The
// default is 500 ms, because a Kratos server ends each call after 1 s. For a
// longer wait raise the server's Timeout first. If a guard's MaxWait is
// shortened, that is logged once. WithMaxWait panics if d is negative.
func WithMaxWait(d time.Duration) Option { return rpcguard.MaxWait(d) }

// Key locks the calls of operation by the key that the given function makes of
// the request message. operation is a full name like "/shop.Stock/Buy". The
// function must make the key with guard.Key, never by concatenation. An empty
// key means that the client has left a value out.
//
// A nil g is the default guard, looked up at each call. For an operation's own
// settings pass g.With(...). Key panics if operation is no full name, or key or
// an option is nil. [Verify] finds names that the server does not have.
func Key[M any](g *guard.Guard, operation string, key func(message M) string, opts ...Option) Rule {
	return KeyFunc(g, operation, rpcguard.OfMessage(key), opts...)
}

// KeyFunc is [Key] with a function that also gets the call's context, for the
// identity of the caller or headers. If the function returns an error the call
// ends with it. Errors of keyfunc or guard become a Kratos error, all others
// are returned unchanged.
func KeyFunc[M any](
	g *guard.Guard, operation string, key func(ctx context.Context, message M) (string, error), opts ...Option,
) Rule {
	return Rule{rpcguard.New(g, operation, key), waits(g, opts)}
}

// KeysFunc is [KeyFunc] with a function that makes all keys of the call, such
// as those of all items of a cart. The handler runs under all the leases, and
// guard.LeaseOf finds each. The keys are taken as [guard.Guard.DoAll] takes
// them, each once. A call with more than 64 keys is refused with 413, and one
// without keys with 400.
func KeysFunc[M any](
	g *guard.Guard, operation string, keys func(ctx context.Context, message M) ([]string, error), opts ...Option,
) Rule {
	return Rule{rpcguard.NewSeveral(g, operation, keys), waits(g, opts)}
}

// waits returns the limit of waits that the options of a lock set.
func waits(g *guard.Guard, opts []Option) *httpguard.Waits {
	return httpguard.NewWaits(g, rpcguard.SettingsOf(defaults, opts).MaxWait)
}

// Server returns a middleware for the operations of rules, in servers of HTTP
// and gRPC. Server waits for the key for at most MaxWait, and at most as long
// as [WithMaxWait] says. Server runs the handler under the lease. The handler's
// context ends when the lease is lost. Server panics if an operation has two
// rules.
func Server(rules ...Rule) middleware.Middleware {
	byOperation, waits := rpcguard.Index(rules, Rule.inner), map[string]*httpguard.Waits{}
	for _, r := range rules {
		r.r.Unary.Store(true)
		waits[r.r.Method] = r.waits
	}
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req any) (any, error) {
			tr, found := transport.FromServerContext(ctx)
			if !found {
				return next(ctx, req)
			}
			r, locked := byOperation[tr.Operation()]
			if !locked {
				return next(ctx, req)
			}
			g := r.Guard
			if w := waits[r.Method]; w.Cuts(ctx) {
				g = w.Short
			}
			handler := func(ctx context.Context) (any, error) { return next(ctx, req) }
			if r.Serve != nil {
				return r.Serve(ctx, g, req, handler)
			}
			resp, err := rpcguard.Run(ctx, g, r, req, handler)
			if err != nil {
				return nil, answer(ctx, r, err)
			}
			return resp, nil
		}
	}
}

// Verify reports rules by which no call is ever locked. Such a rule is for an
// operation that server does not have, or is in no middleware. Without Verify
// such operations run unlocked. Call it after the registration of the services
// and before the start. Do not start if it returns an error:
//
//	if err := lockmw.Verify(gs, rules...); err != nil {
//		return err
//	}
//
// The error joins all findings and Is [guard.ErrInvalidOption]. server must be
// a gRPC server of Kratos, because an HTTP server does not tell which
// operations it has. Verify does not block and is safe for concurrent use.
func Verify(server interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}, rules ...Rule,
) error {
	services := map[string][]rpcguard.Method{}
	for name, s := range server.GetServiceInfo() {
		services[name] = nil
		for _, m := range s.Methods {
			services[name] = append(services[name],
				rpcguard.Method{Name: m.Name, Streams: m.IsClientStream || m.IsServerStream})
		}
	}
	return rpcguard.Verify(rules, Rule.inner, func(r Rule) string { return r.r.Problem(services, true) })
}

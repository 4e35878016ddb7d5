package lockmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-kratos/kratos/v2/middleware"
	"github.com/go-kratos/kratos/v2/transport"
	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/maxwait"
	"github.com/go-lockguard/guard/internal/rpcrule"
)

// defaultMaxWait is the limit of waits without an option for it.
const defaultMaxWait = 500 * time.Millisecond

// Rule says by which key the calls of one operation are locked. [Key] and
// [KeyFunc] make one. It is safe for concurrent use.
type Rule struct {
	r     *rpcrule.Rule
	waits *maxwait.Cap
}

// Option changes how a rule locks.
type Option func(*config)

type config struct{ maxWait time.Duration }

// WithMaxWait sets for how long a call may wait where the guard's MaxWait is
// longer. Default 500 ms, because a Kratos server ends each call after 1 s. For
// more raise the server's Timeout first. That a guard's MaxWait is shortened is
// logged once. It panics if d is negative.
func WithMaxWait(d time.Duration) Option {
	maxwait.Check(d)
	return func(c *config) { c.maxWait = d }
}

// Key locks the calls of operation, a full name like "/shop.Stock/Buy", by the
// key that the given function makes of the request message: of guard.Key alone,
// never of a concatenation. An empty key says that the client has left a value
// out. A nil g is the default guard, looked up at each call; for an operation's
// own settings pass g.With(...). It panics if operation is no full name, or key
// or an option is nil. [Verify] finds names that the server does not have.
func Key[M any](g *guard.Guard, operation string, key func(message M) string, opts ...Option) Rule {
	return KeyFunc(g, operation, rpcrule.OfMessage(key), opts...)
}

// KeyFunc is [Key] with a function that also sees the call's context, for who
// calls or its headers. An error of it ends the call, as it is unless it is one
// of keyfunc or guard.
func KeyFunc[M any](
	g *guard.Guard, operation string, key func(ctx context.Context, message M) (string, error), opts ...Option,
) Rule {
	c := config{maxWait: defaultMaxWait}
	for _, o := range opts {
		if o == nil {
			panic("lockmw: an option is nil")
		}
		o(&c)
	}
	return Rule{rpcrule.New(g, operation, key), maxwait.New(g, c.maxWait)}
}

// Server returns a middleware for the operations of rules, in servers of HTTP
// and gRPC. It waits for the key for at most MaxWait, and for what
// [WithMaxWait] says, and runs the handler under the lease, whose loss ends the
// handler's context. It panics if an operation has two rules.
func Server(rules ...Rule) middleware.Middleware {
	inner, waits := make([]*rpcrule.Rule, len(rules)), map[string]*maxwait.Cap{}
	for i, r := range rules {
		if inner[i] = r.r; r.r != nil {
			r.r.Unary.Store(true)
			waits[r.r.Method] = r.waits
		}
	}
	byOperation := rpcrule.Index(inner)
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
			resp, err := rpcrule.Run(ctx, g, r, req, func(ctx context.Context) (any, error) { return next(ctx, req) })
			if err != nil {
				return nil, answer(ctx, r, err)
			}
			return resp, nil
		}
	}
}

// Verify reports rules by which no call is ever locked: of an operation that
// server does not have, and of a rule that is in no middleware. Without it such
// an operation runs unlocked. Call it between the registration of the services
// and the start, and do not start on an error:
//
//	if err := lockmw.Verify(gs, rules...); err != nil {
//		return err
//	}
//
// The error joins all that is wrong and Is [guard.ErrInvalidOption]. server is
// a gRPC server of Kratos: one of HTTP does not tell which operations it has.
// Verify does not block and is safe for concurrent use.
func Verify(server interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}, rules ...Rule,
) error {
	services := map[string][]rpcrule.Method{}
	for name, s := range server.GetServiceInfo() {
		services[name] = nil
		for _, m := range s.Methods {
			services[name] = append(services[name],
				rpcrule.Method{Name: m.Name, Streams: m.IsClientStream || m.IsServerStream})
		}
	}
	var errs []error
	for _, r := range rules {
		if problem := r.r.Problem(services, true); problem != "" {
			errs = append(errs, fmt.Errorf("%w: lockmw: rule for %q: %s", guard.ErrInvalidOption,
				r.operation(), problem))
		}
	}
	return errors.Join(errs...)
}

func (r Rule) operation() string {
	if r.r == nil {
		return ""
	}
	return r.r.Method
}

package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

var remote = lockmwtest.Remote{
	Serve: serveRemote, Pay: payRemote, Error: lockmw.Error, Causes: true,
	Coded: func(code int, cause error) error { return connect.NewError(connect.Code(code), cause) },
	Kept: map[error]bool{
		detailed(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}): false,
		detailed(&errdetails.ErrorInfo{Reason: "NO_MONEY", Domain: "shop"}):      true,
	},
}

func TestTheTable(t *testing.T) { lockmwtest.RunRemote(t, remote) }

func TestTheTableOfIdempotent(t *testing.T) { lockmwtest.RunRemoteIdempotent(t, remote) }

func detailed(m proto.Message) error {
	e := connect.NewError(connect.CodeFailedPrecondition, errors.New("own"))
	d, _ := connect.NewErrorDetail(m)
	e.AddDetail(d)
	return e
}

func serveRemote(t *testing.T, g *guard.Guard, h lockmwtest.RemoteHandler) (m lockmwtest.Methods) {
	t.Helper()
	s := serve(t, handler(h), rules(g)...)
	return lockmwtest.Methods{
		Locked: calls(s, every...), Second: calls(s, price), Free: calls(s, look), Confused: calls(s, confuse, muddle),
		Botched: calls(s, botch),
	}
}

// calls returns the calls of procedures by each protocol.
func calls(s *httptest.Server, procedures ...string) (all []lockmwtest.Call) {
	for _, procedure := range procedures {
		for protocol, opts := range protocols {
			all = append(all, lockmwtest.Call{Name: protocol + procedure, Do: func(
				ctx context.Context, text, _ string, _ ...string,
			) lockmwtest.Reply {
				return reply(call(ctx, s, procedure, text, opts...))
			}})
		}
	}
	return all
}

type tenantKey struct{}

func tenant(ctx context.Context) (string, error) {
	name, _ := ctx.Value(tenantKey{}).(string)
	return name, nil
}

// authentication takes the tenant from a header.
type authentication struct{ connect.Interceptor }

func (authentication) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(context.WithValue(ctx, tenantKey{}, req.Header().Get("Tenant")), req)
		if typed, ok := resp.(*connect.Response[message]); err == nil && (!ok || typed.Msg == nil) {
			return nil, errors.New("the response is of another type")
		}
		return resp, err
	}
}

func payRemote(
	t *testing.T, r lockmwtest.RemoteRule, pay func(context.Context) (string, error),
) []lockmwtest.Call {
	t.Helper()
	procedure, scope := buy, tenant
	if r.Method != "" {
		procedure = r.Method
	}
	if r.NoScope {
		scope = nil
	}
	once := lockmw.Idempotent[message](r.Guard, procedure, scope, r.TTL, r.Options...)
	chain := []connect.Interceptor{authentication{}, lockmw.Interceptor(once)}
	if r.Inside != nil {
		chain = append(chain, lockmw.Interceptor(lockmw.Key(r.Inside, buy, key)))
	}
	return payments(t, pay, chain...)
}

// payments serves buy behind the chain, and returns its calls.
func payments(
	t *testing.T, pay func(context.Context) (string, error), chain ...connect.Interceptor,
) (all []lockmwtest.Call) {
	t.Helper()
	s := httptest.NewServer(connect.NewUnaryHandler(buy,
		func(ctx context.Context, _ *connect.Request[message]) (*connect.Response[message], error) {
			text, err := pay(ctx)
			return connect.NewResponse(wrapperspb.String(text)), err
		}, connect.WithInterceptors(chain...)))
	t.Cleanup(s.Close)
	for codec, opts := range map[string][]connect.ClientOption{"binary": nil, "json": {connect.WithProtoJSON()}} {
		c := connect.NewClient[message, message](s.Client(), s.URL+buy, opts...)
		all = append(all, lockmwtest.Call{Name: codec, Do: func(
			ctx context.Context, text, tenant string, keys ...string,
		) lockmwtest.Reply {
			req := connect.NewRequest(wrapperspb.String(text))
			req.Header().Set("Tenant", tenant)
			req.Header()["Idempotency-Key"] = keys
			resp, err := c.CallUnary(ctx, req)
			r := reply(err)
			if err == nil {
				r.Text, r.Replayed = resp.Msg.GetValue(), resp.Header().Get("Idempotency-Replayed") == "true"
			}
			return r
		}})
	}
	return all
}

func reply(err error) lockmwtest.Reply {
	if err == nil {
		return lockmwtest.Reply{}
	}
	r := lockmwtest.Reply{Err: err, Code: int(connect.CodeOf(err))}
	e := (*connect.Error)(nil)
	if !errors.As(err, &e) {
		return r
	}
	r.Replayed = e.Meta().Get("Idempotency-Replayed") == "true"
	header := e.Meta().Get("Retry-After")
	for _, d := range e.Details() {
		value, _ := d.Value()
		r.Details += fmt.Sprint(value)
		switch d := value.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == lockmw.Domain {
				r.Reason = d.GetReason()
			}
		case *errdetails.RetryInfo:
			seconds := d.GetRetryDelay().GetSeconds()
			r.Retry = seconds >= 1 && header == strconv.FormatInt(seconds, 10)
		}
	}
	if header != "" && !r.Retry {
		r.Reason += " but Retry-After " + header
	}
	return r
}

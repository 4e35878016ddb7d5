package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	lockmw "github.com/go-lockguard/guard/middleware/connectv2"
)

var remote = lockmwtest.Remote{
	Serve: serveRemote, Pay: payRemote, Error: lockmw.Error, Causes: true,
	Coded: func(code int, cause error) error { return connect.NewError(connect.Code(code), "own").WithCause(cause) },
	Kept: map[error]bool{
		detailed(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}): false,
		detailed(&errdetails.ErrorInfo{Reason: "NO_MONEY", Domain: "shop"}):      true,
		connect.NewError(connect.CodeFailedPrecondition, "own").WithRemote():     false,
	},
}

func TestTheTable(t *testing.T) { lockmwtest.RunRemote(t, remote) }

func TestTheTableOfIdempotent(t *testing.T) { lockmwtest.RunRemoteIdempotent(t, remote) }

func detailed(m proto.Message) error {
	d, _ := connectproto.NewErrorDetail(m)
	return connect.NewError(connect.CodeFailedPrecondition, "own").WithDetail(d)
}

func serveRemote(t *testing.T, g *guard.Guard, h lockmwtest.RemoteHandler) lockmwtest.Methods {
	t.Helper()
	clients := serve(t, handler(h), rules(g)...)
	calls := func(procedures ...string) (all []lockmwtest.Call) {
		for _, procedure := range procedures {
			for protocol, c := range clients {
				all = append(all, lockmwtest.Call{Name: protocol + procedure, Do: func(
					ctx context.Context, text, _ string, _ ...string,
				) lockmwtest.Reply {
					ctx, info := connect.NewClientContext(ctx)
					return reply(call(ctx, c, procedure, text), info)
				}})
			}
		}
		return all
	}
	return lockmwtest.Methods{
		Locked: calls(every...), Second: calls(price), Free: calls(look), Confused: calls(confuse),
		Botched: calls(botch),
	}
}

func tenant(ctx context.Context) (string, error) {
	info, _ := connect.CallInfoForServerContext(ctx)
	return info.RequestHeader().Get("Tenant"), nil
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
	chain := []connect.ServerInterceptor{
		lockmw.Interceptor(lockmw.Idempotent[*message, *message](r.Guard, procedure, scope, r.TTL, r.Options...)),
	}
	if r.Inside != nil {
		chain = append(chain, lockmw.Interceptor(lockmw.Key(r.Inside, buy, key)))
	}
	server := connect.NewServer(chain...)
	server.Register(connect.Method{Spec: spec(buy), Handler: func(
		ctx context.Context, _ connect.Spec, stream connect.ServerStream,
	) error {
		if err := stream.Receive(new(message)); err != nil {
			return err
		}
		text, err := pay(ctx)
		if err != nil {
			return err
		}
		return stream.Send(wrapperspb.String(text))
	}})
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c := connect.NewClient(connecthttp.NewTransport(s.Client(), s.URL))
	return []lockmwtest.Call{{Name: buy, Do: func(
		ctx context.Context, text, tenant string, keys ...string,
	) lockmwtest.Reply {
		ctx, info := connect.NewClientContext(ctx)
		info.RequestHeader().Set("Tenant", tenant)
		info.RequestHeader().SetValues("Idempotency-Key", keys)
		got := new(message)
		err := c.CallUnary(ctx, spec(buy), wrapperspb.String(text), got)
		r := reply(err, info)
		r.Text = got.GetValue()
		return r
	}}}
}

func reply(err error, info *connect.CallInfo) lockmwtest.Reply {
	r := lockmwtest.Reply{Replayed: info.ResponseHeader().Get("Idempotency-Replayed") == "true", Err: err}
	if err == nil {
		return r
	}
	r.Code = int(connect.CodeOf(err))
	e := (*connect.Error)(nil)
	if !errors.As(err, &e) {
		return r
	}
	header := info.ResponseHeader().Get("Retry-After") + info.ResponseTrailer().Get("Retry-After")
	for _, d := range e.Details() {
		value, _ := connectproto.UnmarshalErrorDetail(d)
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

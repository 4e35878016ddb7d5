package lockmw_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	kerrors "github.com/go-kratos/kratos/v3/errors"
	"github.com/go-kratos/kratos/v3/middleware"
	"github.com/go-kratos/kratos/v3/middleware/recovery"
	"github.com/go-kratos/kratos/v3/transport"
	"github.com/go-kratos/kratos/v3/transport/grpc"
	"github.com/go-kratos/kratos/v3/transport/http"
	ggrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/internal/rpcguard"
	lockmw "github.com/go-lockguard/guard/middleware/kratos"
)

var remote = lockmwtest.Remote{Serve: serveRemote, Pay: payRemote, Error: lockmw.Error, Known: true, Kept: kept()}

func TestTheTable(t *testing.T) { lockmwtest.RunRemote(t, remote) }

func TestTheTableOfIdempotent(t *testing.T) { lockmwtest.RunRemoteIdempotent(t, remote) }

// kept are errors, and whether they are kept.
func kept() map[error]bool {
	later := map[string]string{"retry_after": "1"}
	rows := map[error]bool{
		kerrors.New(402, "NO_MONEY", "own").WithMetadata(map[string]string{"account": "1"}): true,
		kerrors.New(404, "NO_ACCOUNT", "own").WithMetadata(later):                           false,
		status.Error(codes.NotFound, "own"):                                                 true,
		status.Error(codes.Unavailable, "own"):                                              false,
	}
	for _, c := range []int{400, 403, 404, 409, 422} {
		rows[kerrors.New(c, "OWN", "own")] = true
	}
	for _, c := range []int{401, 408, 425, 429, 499, 500, 501, 503, 504} {
		rows[kerrors.New(c, "OWN", "own")] = false
	}
	return rows
}

// The operations of a handwritten service with strings as messages.
const (
	buy     = "/shop.Stock/Buy"
	price   = "/shop.Stock/Price"   // the same key as buy
	look    = "/shop.Stock/Look"    // without a rule
	confuse = "/shop.Stock/Confuse" // a rule for messages of another type
	botch   = "/shop.Stock/Botch"   // a rule whose key is a Sprintf gone wrong
)

var operations = []string{buy, price, look, confuse, botch}

type message = wrapperspb.StringValue

func key(m *message) string { return lockmwtest.RemoteKey(m.GetValue()) }

func rules(g *guard.Guard, opts ...lockmw.Option) []lockmw.Rule {
	return []lockmw.Rule{
		lockmw.Key(g, buy, key, opts...), lockmw.Key(g, price, key, opts...),
		lockmw.Key(g, confuse, func(int) string { return "k" }),
		lockmw.Key(g, botch, func(*message) string { return lockmwtest.Misformatted }),
	}
}

func serveRemote(t *testing.T, g *guard.Guard, h lockmwtest.RemoteHandler) (m lockmwtest.Methods) {
	t.Helper()
	for _, calls := range serve(t, func(ctx context.Context, m *message) (*message, error) {
		return m, h(ctx, m.GetValue())
	}, lockmw.Server(rules(g, lockmw.WithMaxWait(time.Hour))...)) {
		m.Locked, m.Second, m.Free = append(m.Locked, calls[0]), append(m.Second, calls[1]), append(m.Free, calls[2])
		m.Confused, m.Botched = append(m.Confused, calls[3]), append(m.Botched, calls[4])
	}
	return m
}

func tenant(ctx context.Context) (string, error) {
	tr, _ := transport.FromServerContext(ctx)
	return tr.RequestHeader().Get("Tenant"), nil
}

func payRemote(
	t *testing.T, r lockmwtest.RemoteRule, pay func(context.Context) (string, error),
) []lockmwtest.Call {
	t.Helper()
	operation, scope := buy, tenant
	if r.Method != "" {
		operation = r.Method
	}
	if r.NoScope {
		scope = nil
	}
	opts := []lockmw.IdempotentOption{lockmw.WithMaxWait(time.Minute)}
	for _, o := range r.Options {
		opts = append(opts, o)
	}
	chain := []middleware.Middleware{lockmw.Server(lockmw.Idempotent(r.Guard, operation, scope, r.TTL, opts...))}
	if r.Inside != nil {
		chain = append(chain, lockmw.Server(lockmw.Key(r.Inside, buy, key)))
	}
	calls := serve(t, func(ctx context.Context, _ *message) (*message, error) {
		text, err := pay(ctx)
		return wrapperspb.String(text), err
	}, chain...)
	return []lockmwtest.Call{calls["grpc"][0], calls["http"][0]}
}

// handler is the handler of every operation of a test.
type handler func(ctx context.Context, m *message) (*message, error)

// serve serves h behind the chain over both transports. It returns the calls of
// the operations by each.
func serve(t *testing.T, h handler, chain ...middleware.Middleware) map[string][]lockmwtest.Call {
	t.Helper()
	all := middleware.Chain(append([]middleware.Middleware{recovery.Recovery()}, chain...)...)
	return map[string][]lockmwtest.Call{"http": serveHTTP(t, h, all), "grpc": serveGRPC(t, h, all)}
}

func serveHTTP(t *testing.T, h handler, chain middleware.Middleware) (calls []lockmwtest.Call) {
	t.Helper()
	s := http.NewServer(http.Address("127.0.0.1:0"), http.Timeout(time.Hour), http.Middleware(chain))
	r := s.Route("/")
	for _, operation := range operations {
		r.POST(operation, func(ctx http.Context) error { // as the generated code does
			http.SetOperation(ctx, operation)
			var in message
			if err := ctx.Bind(&in); err != nil {
				return err
			}
			out, err := ctx.Middleware(func(ctx context.Context, _ any) (any, error) { return h(ctx, &in) })(ctx, &in)
			if err != nil {
				return err
			}
			return ctx.Result(nethttp.StatusOK, out.(*message))
		})
	}
	base := start(t, s)
	for _, operation := range operations {
		calls = append(calls, lockmwtest.Call{Name: "http" + operation, Do: func(
			ctx context.Context, text, tenant string, keys ...string,
		) lockmwtest.Reply {
			body, _ := json.Marshal(map[string]string{"value": text})
			req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, "http://"+base.Host+operation,
				bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = nethttp.Header{
				"Tenant": {tenant}, "Idempotency-Key": keys, "Content-Type": {"application/json"},
			}
			req.Close = true
			return replyOf(new(nethttp.Client).Do(req))
		}})
	}
	return calls
}

// replyOf reads an answer over HTTP.
func replyOf(res *nethttp.Response, err error) lockmwtest.Reply {
	if err != nil {
		return reply(err, "")
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	got, e := struct{ Value string }{}, new(kerrors.Error)
	if res.StatusCode == nethttp.StatusOK {
		err = errors.Join(err, json.Unmarshal(body, &got))
	} else if err = errors.Join(err, json.Unmarshal(body, &e.Status)); err == nil && int(e.Code) == res.StatusCode {
		err = e
	}
	r := reply(err, res.Header.Get("Retry-After"))
	r.Text, r.Replayed = got.Value, res.Header.Get("Idempotency-Replayed") == "true"
	return r
}

func serveGRPC(t *testing.T, h handler, chain middleware.Middleware) (calls []lockmwtest.Call) {
	t.Helper()
	s := grpc.NewServer(grpc.Address("127.0.0.1:0"), grpc.Timeout(time.Hour), grpc.Middleware(chain))
	s.RegisterService(desc(h), nil)
	base := start(t, s)
	conn, err := ggrpc.NewClient(base.Host, ggrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for _, operation := range operations {
		calls = append(calls, lockmwtest.Call{Name: "grpc" + operation, Do: func(
			ctx context.Context, text, tenant string, keys ...string,
		) lockmwtest.Reply {
			ctx = metadata.NewOutgoingContext(ctx, metadata.MD{"tenant": {tenant}, "idempotency-key": keys})
			got, md := new(message), metadata.MD{}
			err := conn.Invoke(ctx, operation, wrapperspb.String(text), got, ggrpc.Header(&md))
			r := reply(err, strings.Join(md.Get("retry-after"), ""))
			r.Text, r.Replayed = got.GetValue(), slices.Equal(md.Get("idempotency-replayed"), []string{"true"})
			return r
		}})
	}
	return calls
}

// grpcCodes are the gRPC codes of the errors of package lockmw.
var grpcCodes = map[int32]int{
	400: rpcguard.InvalidArgument, 409: rpcguard.Aborted, 412: rpcguard.FailedPrecondition,
	429: rpcguard.ResourceExhausted, 500: rpcguard.Internal, 503: rpcguard.Unavailable, 504: rpcguard.DeadlineExceeded,
}

func reply(err error, retryAfter string) lockmwtest.Reply {
	if err == nil {
		return lockmwtest.Reply{}
	}
	e := kerrors.FromError(err)
	r := lockmwtest.Reply{Err: e, Code: int(e.Code), Details: fmt.Sprint(e.Metadata)}
	if e.Metadata["domain"] != lockmw.Domain {
		return r
	}
	seconds, _ := strconv.Atoi(retryAfter)
	r.Code, r.Reason, r.Retry = grpcCodes[e.Code], e.Reason, seconds >= 1
	if retryAfter != e.Metadata["retry_after"] {
		r.Reason += " but Retry-After " + retryAfter
	}
	return r
}

func desc(h handler) *ggrpc.ServiceDesc {
	d := &ggrpc.ServiceDesc{ServiceName: "shop.Stock"}
	for _, operation := range operations {
		d.Methods = append(d.Methods, ggrpc.MethodDesc{
			MethodName: strings.TrimPrefix(operation, "/shop.Stock/"),
			Handler: func(_ any, ctx context.Context, dec func(any) error,
				in ggrpc.UnaryServerInterceptor,
			) (any, error) {
				m := new(message)
				if err := dec(m); err != nil {
					return nil, err
				}
				return in(ctx, m, &ggrpc.UnaryServerInfo{FullMethod: operation},
					func(ctx context.Context, req any) (any, error) { return h(ctx, req.(*message)) })
			},
		})
	}
	return d
}

// start starts a server and returns its address.
func start(t *testing.T, s interface {
	Endpoint() (*url.URL, error)
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
},
) *url.URL {
	t.Helper()
	at, err := s.Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Start(t.Context()) }() // ends with Stop
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(context.WithoutCancel(t.Context())), <-served); err != nil {
			t.Error(err)
		}
	})
	return at
}

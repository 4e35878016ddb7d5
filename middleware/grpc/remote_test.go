package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
)

var remote = lockmwtest.Remote{
	Serve: serveRemote, Pay: payRemote, Error: lockmw.Error, Crashes: true,
	Coded: func(code int, _ error) error { return status.Error(codes.Code(code), "own") },
	Kept: map[error]bool{
		detailed(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}): false,
		detailed(&errdetails.ErrorInfo{Reason: "NO_MONEY", Domain: "shop"}):      true,
	},
}

func TestTheTable(t *testing.T) { lockmwtest.RunRemote(t, remote) }

func TestTheTableOfIdempotent(t *testing.T) { lockmwtest.RunRemoteIdempotent(t, remote) }

func detailed(d protoadapt.MessageV1) error {
	s, _ := status.New(codes.FailedPrecondition, "own").WithDetails(d)
	return s.Err()
}

func serveRemote(t *testing.T, g *guard.Guard, h lockmwtest.RemoteHandler) (m lockmwtest.Methods) {
	t.Helper()
	c := dial(t, g, &shop{
		answer: func(ctx context.Context, m *message) (*message, error) { return m, h(ctx, m.GetValue()) },
		stream: func(ss grpc.ServerStream) error {
			for {
				m := new(message)
				if err := ss.RecvMsg(m); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				_ = ss.SendMsg(m)
				if err := h(ss.Context(), m.GetValue()); err != nil {
					return err
				}
			}
		},
	})
	m.Locked = []lockmwtest.Call{method(c, buy), method(c, watch), method(c, haggle)}
	m.Second, m.Free = []lockmwtest.Call{method(c, price)}, []lockmwtest.Call{method(c, look)}
	m.Confused, m.Botched = []lockmwtest.Call{method(c, confuse)}, []lockmwtest.Call{method(c, botch)}
	return m
}

func payRemote(
	t *testing.T, r lockmwtest.RemoteRule, pay func(context.Context) (string, error),
) []lockmwtest.Call {
	t.Helper()
	name, scope := buy, tenant
	if r.Method != "" {
		name = r.Method
	}
	if r.NoScope {
		scope = nil
	}
	chain := []grpc.UnaryServerInterceptor{lockmw.Unary(lockmw.Idempotent(r.Guard, name, scope, r.TTL, r.Options...))}
	if r.Inside != nil {
		chain = append(chain, lockmw.Unary(lockmw.Key(r.Inside, buy, key)))
	}
	c := dialServer(t, &shop{answer: func(ctx context.Context, _ *message) (*message, error) {
		text, err := pay(ctx)
		return wrapperspb.String(text), err
	}}, grpc.NewServer(grpc.ChainUnaryInterceptor(chain...)))
	return []lockmwtest.Call{method(c, buy)}
}

// method calls a method of any kind with one message.
func method(c *grpc.ClientConn, name string) lockmwtest.Call {
	return lockmwtest.Call{Name: name, Do: func(
		ctx context.Context, text, tenant string, keys ...string,
	) lockmwtest.Reply {
		ctx = metadata.NewOutgoingContext(ctx, metadata.MD{"tenant": {tenant}, "idempotency-key": keys})
		if name == watch || name == haggle {
			return reply(exchange(ctx, c, name, text), nil, nil)
		}
		got, md := new(message), metadata.MD{}
		err := c.Invoke(ctx, name, wrapperspb.String(text), got, grpc.Header(&md))
		return reply(err, got, md)
	}}
}

// exchange sends a message on a stream and reads it to its end.
func exchange(ctx context.Context, c *grpc.ClientConn, name, text string) error {
	s, err := open(ctx, c, name, text)
	if s != nil {
		_ = s.CloseSend()
	}
	for err == nil {
		err = s.RecvMsg(new(message))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func reply(err error, got *message, md metadata.MD) lockmwtest.Reply {
	s := status.Convert(err)
	r := lockmwtest.Reply{
		Text: got.GetValue(), Replayed: slices.Equal(md.Get("idempotency-replayed"), []string{"true"}),
		Err: err, Code: int(s.Code()), Details: fmt.Sprint(s.Details()),
	}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == lockmw.Domain {
				r.Reason = d.GetReason()
			}
		case *errdetails.RetryInfo:
			r.Retry = d.GetRetryDelay().AsDuration() >= time.Second
		}
	}
	return r
}

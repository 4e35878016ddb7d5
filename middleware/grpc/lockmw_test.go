package lockmw_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type message = wrapperspb.StringValue

// The methods of a handwritten service with strings as messages.
const (
	buy     = "/shop.Stock/Buy"     // one message, one answer
	price   = "/shop.Stock/Price"   // the same key as buy
	watch   = "/shop.Stock/Watch"   // one message, a stream of answers
	haggle  = "/shop.Stock/Haggle"  // a stream both ways
	look    = "/shop.Stock/Look"    // without a rule
	confuse = "/shop.Stock/Confuse" // a rule for messages of another type
	botch   = "/shop.Stock/Botch"   // a rule whose key is a Sprintf gone wrong
)

// A shop has the handlers of a test.
type shop struct {
	buy    func(ctx context.Context) error
	answer func(ctx context.Context, m *message) (*message, error) // instead of buy if not nil
	stream func(ss grpc.ServerStream) error
}

func unaryMethod(name string) grpc.MethodDesc {
	_, short := cut(name)
	return grpc.MethodDesc{MethodName: short, Handler: func(srv any, ctx context.Context, dec func(any) error,
		in grpc.UnaryServerInterceptor,
	) (any, error) {
		m := new(message)
		if err := dec(m); err != nil {
			return nil, err
		}
		return in(ctx, m, &grpc.UnaryServerInfo{Server: srv, FullMethod: name},
			func(ctx context.Context, req any) (any, error) {
				if s := srv.(*shop); s.answer != nil {
					return s.answer(ctx, req.(*message))
				}
				return req, srv.(*shop).buy(ctx)
			})
	}}
}

func cut(name string) (service, method string) {
	service, method, _ = strings.Cut(name[1:], "/")
	return service, method
}

func desc() *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{HandlerType: (*any)(nil)}
	for _, name := range []string{buy, price, look, confuse, botch} {
		d.Methods = append(d.Methods, unaryMethod(name))
	}
	d.ServiceName, _ = cut(buy)
	handler := func(srv any, ss grpc.ServerStream) error { return srv.(*shop).stream(ss) }
	d.Streams = []grpc.StreamDesc{
		{StreamName: "Watch", Handler: handler, ServerStreams: true},
		{StreamName: "Haggle", Handler: handler, ServerStreams: true, ClientStreams: true},
	}
	return d
}

func key(m *message) string { return lockmwtest.RemoteKey(m.GetValue()) }

// dial serves s behind the interceptors and returns a client.
func dial(t *testing.T, g *guard.Guard, s *shop, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dialServer(t, s, grpc.NewServer(
		grpc.UnaryInterceptor(lockmw.Unary(
			lockmw.Key(g, buy, key), lockmw.Key(g, price, key),
			lockmw.Key(g, botch, func(*message) string { return lockmwtest.Misformatted }),
			lockmw.Key(g, confuse, func(int) string { return "k" }))),
		grpc.StreamInterceptor(lockmw.Stream(lockmw.Key(g, watch, key), lockmw.Key(g, haggle, key))),
	), opts...)
}

func dialServer(t *testing.T, s *shop, server *grpc.Server, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	server.RegisterService(desc(), s)
	served := make(chan struct{})
	go func() { // ends with Stop
		defer close(served)
		_ = server.Serve(l)
	}()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	conn, err := grpc.NewClient("passthrough:bufconn", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return conn
}

func newGuard(t *testing.T, l guard.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(l, append(opts, guard.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	return g
}

func call(ctx context.Context, c *grpc.ClientConn, method, sku string) error {
	return c.Invoke(ctx, method, wrapperspb.String(sku), new(message))
}

// open opens a stream, sends its first message and waits for the first answer.
func open(ctx context.Context, c *grpc.ClientConn, method, sku string) (grpc.ClientStream, error) {
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: method == haggle}, method)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(wrapperspb.String(sku)); err != nil {
		return nil, err
	}
	if method == watch {
		_ = s.CloseSend()
	}
	return s, s.RecvMsg(new(message))
}

// want checks a status, its reason, and whether it has a RetryInfo.
func want(t *testing.T, err error, code codes.Code, reason string, retry bool) {
	t.Helper()
	s := status.Convert(err)
	var gotReason string
	var after time.Duration
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			gotReason = d.GetReason()
		case *errdetails.RetryInfo:
			after = d.GetRetryDelay().AsDuration()
		}
	}
	if s.Code() != code || gotReason != reason || (after >= time.Second) != retry {
		t.Errorf("got %v %q %q, again after %v; want %v %q, retry %t", s.Code(), gotReason, s.Message(),
			after, code, reason, retry)
	}
	if strings.Contains(s.Message(), "s3cret") {
		t.Errorf("the status names the key: %s", s.Message())
	}
}

// signals sends when a call tries for a key.
type signals struct {
	guard.Locker
	tries chan struct{}
}

func (s signals) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	select {
	case s.tries <- struct{}{}:
	default:
	}
	return s.Locker.Acquire(ctx, c, t)
}

// echoes answers each message with itself.
func echoes(ss grpc.ServerStream) error {
	for {
		m := new(message)
		err := ss.RecvMsg(m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, locked := guard.LeaseFrom(ss.Context()); !locked {
			return status.Error(codes.Unimplemented, "not locked")
		}
		if err := ss.SendMsg(m); err != nil {
			return err
		}
	}
}

func TestAStreamHoldsTheKeyOfItsFirstMessageUntilItsHandlerReturns(t *testing.T) {
	for _, method := range []string{watch, haggle} {
		t.Run(method, func(t *testing.T) {
			g := newGuard(t, memlocker.New(), guard.WithMaxWait(0))
			hold := make(chan struct{})
			c := dial(t, g, &shop{stream: func(ss grpc.ServerStream) error {
				if method == haggle {
					return echoes(ss)
				}
				m := new(message)
				if err := ss.RecvMsg(m); err != nil {
					return err
				}
				_ = ss.SendMsg(m)
				<-hold
				return nil
			}})
			s, err := open(t.Context(), c, method, "s3cret")
			if err != nil {
				t.Fatal(err)
			}
			_, err = open(t.Context(), c, method, "s3cret")
			want(t, err, codes.Aborted, "LOCK_HELD", true)
			if _, err := open(t.Context(), c, haggle, "another"); err != nil && method == haggle {
				t.Error(err)
			}
			close(hold)
			_ = s.CloseSend()
			if err := s.RecvMsg(new(message)); !errors.Is(err, io.EOF) {
				t.Errorf("ended with %v", err)
			}
			if ran, err := g.TryDo(t.Context(), guard.Key("stock", "s3cret"),
				func(context.Context) error { return nil }); !ran {
				t.Errorf("the key is still held: %v", err)
			}
		})
	}
}

func TestAHandlerCannotHideThatItHasNoKey(t *testing.T) {
	g := newGuard(t, memlocker.New(), guard.WithMaxWait(0))
	c := dial(t, g, &shop{stream: func(ss grpc.ServerStream) error {
		for range 3 {
			_ = ss.RecvMsg(new(message))
		}
		return nil
	}})
	_, err := open(t.Context(), c, watch, "")
	want(t, err, codes.InvalidArgument, "LOCK_KEY_INVALID", false)
}

// If a handler leaves a goroutine behind in RecvMsg, the key must not stay with
// it.
func TestAMessageAfterTheHandlerKeepsNoKey(t *testing.T) {
	mem := memlocker.New()
	waits := make(chan struct{}, 1)
	g := newGuard(t, signals{mem, waits}, guard.WithMaxWait(time.Minute))
	other := newGuard(t, mem.Peer())
	held, err := other.Acquire(t.Context(), guard.Key("stock", "s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan error, 1)
	c := dial(t, g, &shop{stream: func(ss grpc.ServerStream) error {
		go func() { received <- ss.RecvMsg(new(message)) }()
		<-waits
		return nil
	}})
	if _, err := open(t.Context(), c, haggle, "s3cret"); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	_ = held.Release(t.Context())
	if err := <-received; err != nil {
		t.Log("received:", err) // may be missing: the call may end first
	}
	if err := g.Close(t.Context()); err != nil { // waits for every lease
		t.Error(err)
	}
}

func TestARuleThatIsNoneIsFoundAtStartUp(t *testing.T) {
	for name, start := range map[string]func(){
		"no slash":    func() { lockmw.Key(nil, "shop.Stock/Buy", key) },
		"no name":     func() { lockmw.Key(nil, "/shop.Stock/", key) },
		"too much":    func() { lockmw.Key(nil, "/shop.Stock/Buy/x", key) },
		"no method":   func() { lockmw.Key(nil, "", key) },
		"no service":  func() { lockmw.Key(nil, "/Buy", key) },
		"no function": func() { lockmw.Key[*message](nil, buy, nil) },
		"two rules":   func() { lockmw.Unary(lockmw.Key(nil, buy, key), lockmw.Key(nil, buy, key)) },
		"an own Rule": func() { lockmw.Stream(lockmw.Rule{}) },
		"no KeyFunc":  func() { lockmw.KeyFunc[*message](nil, buy, nil) },
		"a stream":    func() { lockmw.Stream(lockmw.Idempotent(nil, watch, tenant, time.Hour)) },
	} {
		testguard.Panics(t, name, start)
	}
}

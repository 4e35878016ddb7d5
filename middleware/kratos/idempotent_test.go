package lockmw_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	nethttp "net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kerrors "github.com/go-kratos/kratos/v3/errors"
	"github.com/go-kratos/kratos/v3/middleware"
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
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/kratos"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

func tenant(ctx context.Context) (string, error) {
	tr, _ := transport.FromServerContext(ctx)
	return tr.RequestHeader().Get("Tenant"), nil
}

// till is an operation that pays, in two instances behind a rule of Idempotent.
// Each instance has both transports.
type till struct {
	*testing.T

	locker *memlocker.Locker
	guards [2]*guard.Guard
	inside []middleware.Middleware // behind the rule
	// optional is whether the handler may run without a lease.
	optional bool
	runs     atomic.Int32
	answers  func() (string, error)
	pays     map[string][2]payment // by transport
}

// payment pays with the header. It returns whether the answer is a replay.
type payment func(ctx context.Context, header map[string][]string, text string) (string, bool, error)

func newTill(t *testing.T, answers func() (string, error), opts ...guard.Option) *till {
	t.Helper()
	s := &till{T: t, locker: memlocker.New(), answers: answers}
	opts = append([]guard.Option{
		guard.WithLogger(slog.New(slog.DiscardHandler)), guard.WithTTL(time.Minute), guard.WithMaxWait(time.Minute),
	}, opts...)
	for i, l := range []guard.Locker{s.locker, s.locker.Peer()} {
		g, err := guard.New(l, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		s.guards[i] = g
	}
	return s
}

// open starts the instances.
func (s *till) open() *till {
	var overHTTP, overGRPC [2]payment
	for i, g := range s.guards {
		rule := lockmw.Idempotent(g, buy, tenant, time.Hour, lockmw.WithMaxWait(time.Minute))
		chain := append([]middleware.Middleware{lockmw.Server(rule)}, s.inside...)
		overHTTP[i], overGRPC[i] = s.openHTTP(middleware.Chain(chain...)), s.openGRPC(middleware.Chain(chain...))
	}
	s.pays = map[string][2]payment{"http": overHTTP, "grpc": overGRPC}
	return s
}

func (s *till) openHTTP(m middleware.Middleware) payment {
	server := http.NewServer(http.Address("127.0.0.1:0"), http.Timeout(time.Hour), http.Middleware(m))
	server.Route("/").POST(buy, func(ctx http.Context) error { // as the generated code does
		http.SetOperation(ctx, buy)
		var in message
		if err := ctx.Bind(&in); err != nil {
			return err
		}
		out, err := ctx.Middleware(func(ctx context.Context, _ any) (any, error) { return s.pay(ctx) })(ctx, &in)
		if err != nil {
			return err
		}
		return ctx.Result(nethttp.StatusOK, out.(*message))
	})
	base := start(s.T, server)
	return func(ctx context.Context, header map[string][]string, text string) (string, bool, error) {
		body, _ := json.Marshal(map[string]string{"value": text})
		req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, "http://"+base.Host+buy,
			bytes.NewReader(body))
		if err != nil {
			return "", false, err
		}
		req.Header, req.Close = header, true
		req.Header.Set("Content-Type", "application/json")
		res, err := new(nethttp.Client).Do(req)
		if err != nil {
			return "", false, err
		}
		defer res.Body.Close()
		all, err := io.ReadAll(res.Body)
		replayed := res.Header.Get("Idempotency-Replayed") == "true"
		if res.StatusCode == nethttp.StatusOK {
			var got struct{ Value string }
			err = errors.Join(err, json.Unmarshal(all, &got))
			return got.Value, replayed, err
		}
		e := new(kerrors.Error)
		if err := json.Unmarshal(all, &e.Status); err != nil {
			s.Errorf("got %d %s, %v", res.StatusCode, all, err)
		}
		return "", replayed, e
	}
}

func (s *till) openGRPC(m middleware.Middleware) payment {
	server := grpc.NewServer(grpc.Address("127.0.0.1:0"), grpc.Timeout(time.Hour), grpc.Middleware(m))
	server.RegisterService(&ggrpc.ServiceDesc{ServiceName: "shop.Stock", Methods: []ggrpc.MethodDesc{{
		MethodName: "Buy",
		Handler: func(_ any, ctx context.Context, dec func(any) error, in ggrpc.UnaryServerInterceptor) (any, error) {
			m := new(message)
			if err := dec(m); err != nil {
				return nil, err
			}
			return in(ctx, m, &ggrpc.UnaryServerInfo{FullMethod: buy},
				func(ctx context.Context, _ any) (any, error) { return s.pay(ctx) })
		},
	}}}, nil)
	base := start(s.T, server)
	conn, err := ggrpc.NewClient(base.Host, ggrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context, header map[string][]string, text string) (string, bool, error) {
		md := metadata.MD{}
		for name, values := range header {
			md.Append(name, values...)
		}
		out, got := new(message), metadata.MD{}
		err := conn.Invoke(metadata.NewOutgoingContext(ctx, md), buy, wrapperspb.String(text), out, ggrpc.Header(&got))
		return out.GetValue(), len(got.Get("idempotency-replayed")) == 1, err
	}
}

func (s *till) pay(ctx context.Context) (*message, error) {
	s.runs.Add(1)
	l, found := guard.LeaseFrom(ctx)
	if !found && !s.optional || found && !strings.HasPrefix(l.Key(), "idempotent:") && s.inside == nil {
		s.Error("there is no lease, or on another key")
	}
	text, err := s.answers()
	if err != nil {
		return nil, err
	}
	return wrapperspb.String(text), nil
}

// call pays at an instance, by a transport.
func (s *till) call(
	transport string, instance int, tenant, text string, keys ...string,
) (string, bool, *kerrors.Error) {
	header := map[string][]string{"Tenant": {tenant}, "Idempotency-Key": keys}
	got, replayed, err := s.pays[transport][instance](s.Context(), header, text)
	return got, replayed, kerrors.FromError(err)
}

// expect fails the test unless err has the code and the reason.
func (s *till) expect(what string, err *kerrors.Error, code int, reason string) {
	s.Helper()
	if err == nil || int(err.Code) != code || err.Reason != reason {
		s.Errorf("%s: got %v, want %d %s", what, err, code, reason)
	}
}

func (s *till) expectRuns(n int32) {
	s.Helper()
	if got := s.runs.Load(); got != n {
		s.Errorf("%d runs, want %d", got, n)
	}
}

// One record serves both transports and both instances.
func TestACallThatComesAgainGetsTheAnswerByEitherTransport(t *testing.T) {
	s := newTill(t, func() (string, error) { return "paid", nil }).open()
	for i, row := range []struct {
		transport string
		instance  int
	}{{"http", 0}, {"http", 1}, {"grpc", 1}, {"grpc", 0}} {
		got, replayed, err := s.call(row.transport, row.instance, "ann", "10", "k")
		if got != "paid" || err != nil || replayed != (i > 0) {
			t.Errorf("%v: got %q, %v, replay %v", row, got, err, replayed)
		}
	}
	if got, replayed, err := s.call("grpc", 0, "bob", "10", "k"); got != "paid" || err != nil || replayed {
		t.Errorf("another scope got %q, %v, replay %v", got, err, replayed)
	}
	if got, replayed, err := s.call("http", 1, "bob", "10", `"k"`); got != "paid" || err != nil || !replayed {
		t.Errorf("then it got %q, %v, replay %v", got, err, replayed)
	}
	s.expectRuns(2)
	for name := range s.pays {
		_, _, err := s.call(name, 1, "ann", "11", "k")
		s.expect("another message", err, nethttp.StatusBadRequest, "IDEMPOTENCY_KEY_REUSED")
		for _, keys := range [][]string{nil, {""}, {"k", "k"}, {"k 1"}} {
			_, _, err := s.call(name, 0, "ann", "10", keys...)
			s.expect("a bad key", err, nethttp.StatusBadRequest, "IDEMPOTENCY_KEY_INVALID")
		}
		_, _, err = s.call(name, 0, "", "10", "k")
		s.expect("an empty scope", err, nethttp.StatusInternalServerError, "LOCK_MISCONFIGURED")
	}
	s.expectRuns(2)
}

func TestWhichErrorsAreKept(t *testing.T) {
	later := map[string]string{"retry_after": "1"}
	rows := map[error]bool{
		kerrors.New(402, "NO_MONEY", "own").WithMetadata(map[string]string{"account": "1"}): true,
		kerrors.New(404, "NO_ACCOUNT", "own").WithMetadata(later):                           false,
		status.Error(codes.NotFound, "own"):                                                 true,
		status.Error(codes.Unavailable, "own"):                                              false,
		errors.New("own"):                                                                   false,
		&guard.HeldError{}:                                                                  false,
		guard.ErrUnavailable:                                                                false,
	}
	for _, c := range []int{400, 403, 404, 409, 422} {
		rows[kerrors.New(c, "OWN", "own")] = true
	}
	for _, c := range []int{401, 408, 425, 429, 499, 500, 501, 503, 504} {
		rows[kerrors.New(c, "OWN", "own")] = false
	}
	var own error
	s := newTill(t, func() (string, error) { return "", own }).open()
	for err, kept := range rows {
		for name := range s.pays {
			own = err
			s.runs.Store(0)
			_, early, first := s.call(name, 0, "ann", "10", "k")
			_, replayed, then := s.call(name, 1, "ann", "10", "k")
			if early || replayed != kept || first == nil || then == nil || first.Code != then.Code ||
				first.Reason != then.Reason || first.Message != then.Message ||
				len(first.Metadata) != len(then.Metadata) {
				t.Errorf("%s, %v: got %v, then %v, replay %v, %v", name, err, first, then, early, replayed)
			}
			if kept {
				s.expectRuns(1)
			} else {
				s.expectRuns(2)
			}
			if _, err := s.guards[0].Forget(t.Context(), guard.Key("idempotent", "ann", "k")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestALostLeaseKeepsNoAnswer(t *testing.T) {
	var s *till
	s = newTill(t, func() (string, error) {
		if s.runs.Load() == 1 {
			s.locker.Lose(guard.Key("idempotent", "ann", "k"))
		}
		return "paid", nil
	}).open()
	_, _, err := s.call("http", 0, "ann", "10", "k")
	s.expect("a lost lease", err, nethttp.StatusInternalServerError, "LOCK_LOST")
	if got, replayed, err := s.call("grpc", 1, "ann", "10", "k"); got != "paid" || err != nil || replayed {
		t.Errorf("then %q, %v, replay %v", got, err, replayed)
	}
	s.expectRuns(2)
}

// A lock in front of the handler has done nothing, so its refusal leaves no
// mark. An error of the handler does.
func TestAtMostOnceNoCallRunsAgainThatMayHavePaid(t *testing.T) {
	s := newTill(t, func() (string, error) { return "", errors.New("own") }, guard.WithAtMostOnce())
	shop := s.guards[0].With(guard.WithMaxWait(0))
	s.inside = []middleware.Middleware{lockmw.Server(lockmw.Key(shop, buy, key))}
	s.open()
	l, err := s.guards[1].Acquire(t.Context(), guard.Key("stock", "10"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.pays {
		_, _, err := s.call(name, 0, "ann", "10", "k")
		if err == nil || err.Reason != "LOCK_HELD" {
			t.Errorf("%s: a lock inside: %v", name, err)
		}
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	s.expectRuns(0)
	_, _, own := s.call("http", 0, "ann", "10", "k")
	s.expect("the handler", own, nethttp.StatusInternalServerError, "")
	_, _, then := s.call("http", 1, "ann", "10", "k")
	s.expect("then", then, nethttp.StatusPreconditionFailed, "IDEMPOTENCY_INTERRUPTED")
	s.expectRuns(1)
}

func TestAnAnswerThatIsTooLongIsGone(t *testing.T) {
	s := newTill(t, func() (string, error) { return strings.Repeat("x", 100), nil }, guard.WithResultLimit(100)).open()
	if got, _, err := s.call("http", 0, "ann", "10", "k"); len(got) != 100 || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	_, _, err := s.call("http", 1, "ann", "10", "k")
	s.expect("then", err, nethttp.StatusPreconditionFailed, "IDEMPOTENCY_ANSWER_GONE")
	s.expectRuns(1)
}

func TestTheOptionsOfIdempotent(t *testing.T) {
	s, told := newTill(t, func() (string, error) { return "paid", nil }), 0
	s.optional = true
	pay := s.openHTTP(lockmw.Server(lockmw.Idempotent(s.guards[0], buy, tenant, time.Hour,
		rpcopt.WithIdempotencyKey(func(_ context.Context, m *message) (string, error) {
			id, _, _ := strings.Cut(m.GetValue(), " ")
			return id, nil
		}),
		rpcopt.WithFingerprint(func(_ context.Context, m *message) (string, error) {
			_, cents, _ := strings.Cut(m.GetValue(), " ")
			return strings.TrimSpace(cents), nil
		}),
		rpcopt.WithOptionalKey(), rpcopt.WithReplayHook(func(context.Context) { told++ }))))
	s.pays = map[string][2]payment{"http": {pay}}
	for _, row := range []struct {
		text string
		told int
	}{{"k 10", 0}, {"k  10", 1}, {"", 1}, {"", 1}} {
		if got, _, err := s.call("http", 0, "ann", row.text); got != "paid" || err != nil || told != row.told {
			t.Errorf("%q: got %q, %v, told %d times", row.text, got, err, told)
		}
	}
	_, _, err := s.call("http", 0, "ann", "k 11")
	s.expect("another value", err, nethttp.StatusBadRequest, "IDEMPOTENCY_KEY_REUSED")
	_, _, err = s.call("http", 0, "ann", strings.Repeat("k", 256))
	s.expect("a long key", err, nethttp.StatusBadRequest, "IDEMPOTENCY_KEY_INVALID")
	s.expectRuns(3)
}

// The operation's own limit of waits holds for the wait for an answer too.
func TestTheWaitForAnAnswerEndsBeforeTheServerDoes(t *testing.T) {
	s := newTill(t, func() (string, error) { return "paid", nil })
	l, err := s.guards[1].Acquire(t.Context(), guard.Key("idempotent", "ann", "k"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release(t.Context()) }()
	pay := s.openHTTP(lockmw.Server(lockmw.Idempotent(s.guards[0], buy, tenant, time.Hour, lockmw.WithMaxWait(0))))
	s.pays = map[string][2]payment{"http": {pay}}
	_, _, held := s.call("http", 0, "ann", "10", "k")
	s.expect("a short wait", held, nethttp.StatusConflict, "LOCK_HELD")
	s.expectRuns(0)
}

func TestIdempotentRefusesWhatCannotWork(t *testing.T) {
	for name, f := range map[string]func(){
		"no scope":     func() { lockmw.Idempotent(nil, buy, nil, time.Hour) },
		"no ttl":       func() { lockmw.Idempotent(nil, buy, tenant, 0) },
		"a bad name":   func() { lockmw.Idempotent(nil, "buy", tenant, time.Hour) },
		"a nil option": func() { lockmw.Idempotent(nil, buy, tenant, time.Hour, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

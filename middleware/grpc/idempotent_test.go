package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

// till is a method that pays, behind the rule of Idempotent.
type till struct {
	runs    int
	answers func() (string, error)
}

func tenant(ctx context.Context) (string, error) {
	if v := metadata.ValueFromIncomingContext(ctx, "tenant"); len(v) == 1 {
		return v[0], nil
	}
	return "", nil
}

// pay calls buy as a server does.
func (s *till) pay(t *testing.T, g *guard.Guard, tenantName, message string, keys ...string) (string, error) {
	t.Helper()
	md := metadata.MD{"tenant": {tenantName}, "idempotency-key": keys}
	ctx := metadata.NewIncomingContext(t.Context(), md)
	unary := lockmw.Unary(lockmw.Idempotent(g, buy, tenant, time.Hour))
	resp, err := unary(ctx, wrapperspb.String(message), &grpc.UnaryServerInfo{FullMethod: buy},
		func(ctx context.Context, _ any) (any, error) {
			s.runs++
			if l, found := guard.LeaseFrom(ctx); !found || l.Key() != guard.Key("idempotent", tenantName, "k") {
				t.Error("there is no lease, or on another key")
			}
			text, err := s.answers()
			return wrapperspb.String(text), err
		})
	if m, ok := resp.(*wrapped); ok && err == nil {
		return m.GetValue(), nil
	}
	return "", err
}

type wrapped = wrapperspb.StringValue

// reason returns the reason in a status of this package.
func reasonIn(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

func instances(t *testing.T, opts ...guard.Option) (l *memlocker.Locker, one, two *guard.Guard) {
	t.Helper()
	l = memlocker.New()
	return l, newGuard(t, l, opts...), newGuard(t, l.Peer(), opts...)
}

func TestACallThatComesAgainGetsTheAnswer(t *testing.T) {
	_, one, two := instances(t)
	s := &till{answers: func() (string, error) { return "paid", nil }}
	for _, g := range []*guard.Guard{one, two, one} {
		if got, err := s.pay(t, g, "ann", "10", "k"); got != "paid" || err != nil || s.runs != 1 {
			t.Errorf("got %q, %v, %d runs", got, err, s.runs)
		}
	}
	if _, err := s.pay(t, two, "ann", "11", "k"); status.Code(err) != codes.InvalidArgument ||
		reasonIn(err) != "IDEMPOTENCY_KEY_REUSED" {
		t.Errorf("another message got %v", err)
	}
	if _, err := s.pay(t, two, "bob", "10", `"k"`); err != nil || s.runs != 2 {
		t.Errorf("another scope got %v, %d runs", err, s.runs)
	}
	for _, keys := range [][]string{nil, {""}, {"k", "k"}, {"k 1"}} {
		if _, err := s.pay(t, one, "ann", "10", keys...); status.Code(err) != codes.InvalidArgument ||
			reasonIn(err) != "IDEMPOTENCY_KEY_INVALID" {
			t.Errorf("%q got %v", keys, err)
		}
	}
	if _, err := s.pay(t, one, "", "10", "k"); status.Code(err) != codes.Internal {
		t.Errorf("an empty scope got %v", err)
	}
	if s.runs != 2 {
		t.Errorf("%d runs, want 2", s.runs)
	}
}

// What a client sees through a server: the first answer, the answer while it is
// made, replays of a response and of an error, and a message that is too large.
func TestWhatClientsSeeOfIdempotent(t *testing.T) {
	_, one, two := instances(t, guard.WithMaxWait(0))
	begun, end := make(chan struct{}), make(chan struct{})
	runs, own := 0, error(nil)
	s := &shop{buy: func(ctx context.Context) error {
		runs++
		_ = grpc.SetHeader(ctx, metadata.Pairs("own", "header"))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("own", "trailer"))
		if own == nil {
			close(begun)
			<-end
		}
		return own
	}}
	var clients [2]*grpc.ClientConn
	for i, g := range []*guard.Guard{one, two} {
		clients[i] = dialServer(t, s, grpc.NewServer(grpc.MaxRecvMsgSize(100),
			grpc.UnaryInterceptor(lockmw.Unary(lockmw.Idempotent(g, buy, tenant, time.Hour)))))
	}
	pay := func(client int, key, text string) (md [2]metadata.MD, err error) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant", "ann", "idempotency-key", key)
		got := new(message)
		err = clients[client].Invoke(ctx, buy, wrapperspb.String(text), got, grpc.Header(&md[0]), grpc.Trailer(&md[1]))
		if err == nil && got.GetValue() != text {
			t.Errorf("%s: got %q", key, got.GetValue())
		}
		return md, err
	}
	expect := func(what string, md [2]metadata.MD, err error, code codes.Code, reason, ownMD, replayed string) {
		t.Helper()
		seen := strings.Join(append(md[0].Get("own"), md[1].Get("own")...), " ")
		if status.Code(err) != code || reasonIn(err) != reason || seen != ownMD ||
			strings.Join(md[0].Get("idempotency-replayed"), "") != replayed {
			t.Errorf("%s: %v, %v", what, err, md)
		}
	}

	first := make(chan func(), 1)
	go func() {
		md, err := pay(0, "k", "10")
		first <- func() { expect("the first", md, err, codes.OK, "", "header trailer", "") }
	}()
	<-begun
	md, err := pay(1, "k", "10")
	expect("in progress", md, err, codes.Aborted, "LOCK_HELD", "", "")
	close(end)
	(<-first)()
	md, err = pay(1, "k", "10")
	expect("again", md, err, codes.OK, "", "", "true")
	md, err = pay(0, "k", "11")
	expect("another message", md, err, codes.InvalidArgument, "IDEMPOTENCY_KEY_REUSED", "", "")
	md, err = pay(0, "long", strings.Repeat("x", 200))
	expect("a message above the limit", md, err, codes.ResourceExhausted, "", "", "")

	refusal, _ := status.New(codes.NotFound, "no lamp").WithDetails(&errdetails.ErrorInfo{Reason: "NO_LAMP"})
	own = refusal.Err()
	md, err = pay(0, "no", "10")
	expect("an error", md, err, codes.NotFound, "NO_LAMP", "header trailer", "")
	md, err = pay(1, "no", "10")
	expect("the error again", md, err, codes.NotFound, "NO_LAMP", "", "true")
	if runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}

func TestWhichStatusesAreKept(t *testing.T) {
	_, one, two := instances(t)
	later, _ := status.New(codes.FailedPrecondition, "later").
		WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	rows := []struct {
		err  error
		kept bool
	}{{later.Err(), false}, {errors.New("own"), false}, {&guard.HeldError{}, false}, {guard.ErrUnavailable, false}}
	for _, c := range []codes.Code{3, 5, 6, 7, 9, 11, 12} {
		rows = append(rows, struct {
			err  error
			kept bool
		}{status.Error(c, "own"), true})
	}
	for _, c := range []codes.Code{1, 2, 4, 8, 10, 13, 14, 15, 16} {
		rows = append(rows, struct {
			err  error
			kept bool
		}{status.Error(c, "own"), false})
	}
	for _, row := range rows {
		s := &till{answers: func() (string, error) { return "", row.err }}
		_, first := s.pay(t, one, "ann", "10", "k")
		_, then := s.pay(t, two, "ann", "10", "k")
		if status.Code(first) != status.Code(then) || first.Error() != then.Error() || (s.runs == 1) != row.kept {
			t.Errorf("%v: got %v, then %v, %d runs", row.err, first, then, s.runs)
		}
		if _, err := one.Forget(t.Context(), guard.Key("idempotent", "ann", "k")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALostLeaseKeepsNoAnswer(t *testing.T) {
	l, one, two := instances(t)
	s := &till{}
	s.answers = func() (string, error) {
		if s.runs == 1 {
			l.Lose(guard.Key("idempotent", "ann", "k"))
		}
		return "paid", nil
	}
	if _, err := s.pay(t, one, "ann", "10", "k"); status.Code(err) != codes.Internal || reasonIn(err) != "LOCK_LOST" {
		t.Errorf("got %v", err)
	}
	if got, err := s.pay(t, two, "ann", "10", "k"); got != "paid" || err != nil || s.runs != 2 {
		t.Errorf("then %q, %v, %d runs", got, err, s.runs)
	}
}

func TestAtMostOnceNoCallRunsAgainThatMayHavePaid(t *testing.T) {
	_, one, two := instances(t, guard.WithAtMostOnce())
	s := &till{answers: func() (string, error) { return "", status.Error(codes.Internal, "own") }}
	_, _ = s.pay(t, one, "ann", "10", "k")
	if _, err := s.pay(t, two, "ann", "10", "k"); status.Code(err) != codes.FailedPrecondition ||
		reasonIn(err) != "IDEMPOTENCY_INTERRUPTED" || s.runs != 1 {
		t.Errorf("got %v, %d runs", err, s.runs)
	}
	for name, own := range map[string]error{
		"refused": guard.NothingDone(status.Error(codes.Unavailable, "own")),
		"no-user": status.Error(codes.Unauthenticated, "own"),
	} {
		_, one, two := instances(t, guard.WithAtMostOnce())
		s := &till{answers: func() (string, error) { return "", own }}
		for _, g := range []*guard.Guard{one, two} {
			if _, err := s.pay(t, g, "ann", "10", "k"); status.Code(err) != status.Code(own) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if s.runs != 2 {
			t.Errorf("%s: %d runs, want 2", name, s.runs)
		}
	}
}

func TestAnAnswerThatIsTooLongIsGone(t *testing.T) {
	_, one, two := instances(t, guard.WithResultLimit(100))
	s := &till{answers: func() (string, error) { return string(make([]byte, 100)), nil }}
	if got, err := s.pay(t, one, "ann", "10", "k"); len(got) != 100 || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := s.pay(t, two, "ann", "10", "k"); status.Code(err) != codes.FailedPrecondition ||
		reasonIn(err) != "IDEMPOTENCY_ANSWER_GONE" || s.runs != 1 {
		t.Errorf("then %v, %d runs", err, s.runs)
	}
}

func TestIdempotentRefusesWhatCannotWork(t *testing.T) {
	g := newGuard(t, memlocker.New())
	for name, f := range map[string]func(){
		"no scope":   func() { lockmw.Idempotent(g, buy, nil, time.Hour) },
		"no ttl":     func() { lockmw.Idempotent(g, buy, tenant, 0) },
		"a bad name": func() { lockmw.Idempotent(g, "buy", tenant, time.Hour) },
		"a stream":   func() { lockmw.Stream(lockmw.Idempotent(g, watch, tenant, time.Hour)) },
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

// A lock in front of the handler has done nothing, so its refusal leaves no
// mark.
func TestAtMostOnceALockInFrontOfTheHandlerLeavesNoMark(t *testing.T) {
	_, one, two := instances(t, guard.WithAtMostOnce())
	runs := 0
	lock := lockmw.Unary(lockmw.Key(one.With(guard.WithMaxWait(0)), buy, func(*wrapped) string { return "stock" }))
	pay := func() error {
		md := metadata.MD{"tenant": {"ann"}, "idempotency-key": {"k"}}
		ctx, info := metadata.NewIncomingContext(t.Context(), md), &grpc.UnaryServerInfo{FullMethod: buy}
		_, err := lockmw.Unary(lockmw.Idempotent(one, buy, tenant, time.Hour))(ctx, wrapperspb.String("10"), info,
			func(ctx context.Context, req any) (any, error) {
				return lock(ctx, req, info, func(context.Context, any) (any, error) {
					runs++
					return wrapperspb.String("paid"), nil
				})
			})
		return err
	}
	l, err := two.Acquire(t.Context(), "stock")
	if err != nil {
		t.Fatal(err)
	}
	if err := pay(); reasonIn(err) != "LOCK_HELD" || runs != 0 {
		t.Errorf("got %v, %d runs", err, runs)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := pay(); err != nil || runs != 1 {
		t.Errorf("then %v, %d runs", err, runs)
	}
}

func TestTheOptionsOfIdempotent(t *testing.T) {
	_, one, two := instances(t)
	runs, told := 0, 0
	call := func(g *guard.Guard, message any) (any, error) {
		rule := lockmw.Idempotent(g, buy, func(context.Context) (string, error) { return "ann", nil }, time.Hour,
			rpcopt.WithIdempotencyKey(func(_ context.Context, m *wrapped) (string, error) {
				id, _, _ := strings.Cut(m.GetValue(), " ")
				return id, nil
			}),
			rpcopt.WithFingerprint(func(_ context.Context, m *wrapped) (string, error) {
				_, cents, _ := strings.Cut(m.GetValue(), " ")
				return strings.TrimSpace(cents), nil
			}),
			rpcopt.WithOptionalKey(), rpcopt.WithReplayHook(func(context.Context) { told++ }))
		return lockmw.Unary(rule)(t.Context(), message, &grpc.UnaryServerInfo{FullMethod: buy},
			func(context.Context, any) (any, error) {
				runs++
				return wrapperspb.Int64(int64(runs)), nil
			})
	}
	for i, row := range []struct {
		text       string
		runs, told int
		reason     string
	}{
		{"k 10", 1, 0, ""},
		{"k  10", 1, 1, ""},
		{"k 11", 1, 1, "IDEMPOTENCY_KEY_REUSED"},
		{"", 2, 1, ""},
		{"", 3, 1, ""},
		{strings.Repeat("k", 256), 3, 1, "IDEMPOTENCY_KEY_INVALID"},
	} {
		_, err := call([]*guard.Guard{one, two}[i%2], wrapperspb.String(row.text))
		if runs != row.runs || told != row.told || reasonIn(err) != row.reason || (err == nil) != (row.reason == "") {
			t.Errorf("%.20q: %d runs, told %d times, %v", row.text, runs, told, err)
		}
	}
	if _, err := call(one, wrapperspb.Int64(1)); status.Code(err) != codes.Internal {
		t.Errorf("another message got %v", err)
	}
	rule := lockmw.Idempotent(one, buy, tenant, time.Hour, rpcopt.WithoutFingerprint())
	for i, cents := range []int64{10, 11} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{"tenant": {"bob"}, "idempotency-key": {"k"}})
		got, err := lockmw.Unary(rule)(ctx, wrapperspb.Int64(cents), &grpc.UnaryServerInfo{FullMethod: buy},
			func(_ context.Context, m any) (any, error) { return m, nil })
		if m, ok := got.(*wrapperspb.Int64Value); err != nil || !ok || m.GetValue() != 10 {
			t.Errorf("call %d got %v, %v", i, got, err)
		}
	}
}

package lockmw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

type tenantKey struct{}

func tenant(ctx context.Context) (string, error) {
	name, _ := ctx.Value(tenantKey{}).(string)
	return name, nil
}

// till is a procedure that pays, in two instances behind a rule of Idempotent.
type till struct {
	*testing.T

	locker  *memlocker.Locker
	guards  [2]*guard.Guard
	inside  []connect.Interceptor // behind the rule
	runs    atomic.Int32
	answers func() (string, error)
	clients map[string][2]*connect.Client[message, message] // by their codec
}

func newTill(t *testing.T, answers func() (string, error), opts ...guard.Option) *till {
	t.Helper()
	s := &till{T: t, locker: memlocker.New(), answers: answers}
	opts = append([]guard.Option{quiet, guard.WithTTL(time.Minute), guard.WithMaxWait(time.Minute)}, opts...)
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
	s.clients = map[string][2]*connect.Client[message, message]{}
	var binary, text [2]*connect.Client[message, message]
	for i, g := range s.guards {
		rule := lockmw.Idempotent[message](g, buy, tenant, time.Hour)
		chain := append([]connect.Interceptor{authentication{}, lockmw.Interceptor(rule)}, s.inside...)
		h := connect.NewUnaryHandler(buy, s.pay, connect.WithInterceptors(chain...))
		server := httptest.NewServer(h)
		s.Cleanup(server.Close)
		binary[i] = connect.NewClient[message, message](server.Client(), server.URL+buy)
		text[i] = connect.NewClient[message, message](server.Client(), server.URL+buy, connect.WithProtoJSON())
	}
	s.clients["binary"], s.clients["json"] = binary, text
	return s
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

func (s *till) pay(ctx context.Context, _ *connect.Request[message]) (*connect.Response[message], error) {
	s.runs.Add(1)
	if l, found := guard.LeaseFrom(ctx); !found || !strings.HasPrefix(l.Key(), "idempotent:") && s.inside == nil {
		s.Error("there is no lease, or on another key")
	}
	text, err := s.answers()
	return connect.NewResponse(wrapperspb.String(text)), err
}

// call pays at an instance, with a codec. It returns whether it was a replay.
func (s *till) call(codec string, instance int, tenant, text string, keys ...string) (string, bool, error) {
	req := connect.NewRequest(wrapperspb.String(text))
	req.Header().Set("Tenant", tenant)
	req.Header()["Idempotency-Key"] = keys
	resp, err := s.clients[codec][instance].CallUnary(s.Context(), req)
	if err != nil {
		var header http.Header
		if e := (*connect.Error)(nil); errors.As(err, &e) {
			header = e.Meta()
		}
		return "", header.Get("Idempotency-Replayed") == "true", err
	}
	return resp.Msg.GetValue(), resp.Header().Get("Idempotency-Replayed") == "true", nil
}

func (s *till) expectRuns(n int32) {
	s.Helper()
	if got := s.runs.Load(); got != n {
		s.Errorf("%d runs, want %d", got, n)
	}
}

func TestACallThatComesAgainGetsTheAnswer(t *testing.T) {
	s := newTill(t, func() (string, error) { return "paid", nil }).open()
	for i, row := range []struct {
		codec    string
		instance int
	}{{"binary", 0}, {"binary", 1}, {"json", 1}, {"json", 0}} {
		got, replayed, err := s.call(row.codec, row.instance, "ann", "10", "k")
		if got != "paid" || err != nil || replayed != (i > 0) {
			t.Errorf("%v: got %q, %v, replay %v", row, got, err, replayed)
		}
	}
	s.expectRuns(1)
	_, _, err := s.call("binary", 1, "ann", "11", "k")
	want(t, "another message", err, connect.CodeInvalidArgument, "IDEMPOTENCY_KEY_REUSED", false)
	for _, keys := range [][]string{nil, {""}, {"k", "k"}, {"k 1"}} {
		_, _, err := s.call("binary", 0, "ann", "10", keys...)
		want(t, "a bad key", err, connect.CodeInvalidArgument, "IDEMPOTENCY_KEY_INVALID", false)
	}
	_, _, err = s.call("binary", 0, "", "10", "k")
	want(t, "an empty scope", err, connect.CodeInternal, "LOCK_MISCONFIGURED", false)
	s.expectRuns(1)
	if _, replayed, err := s.call("binary", 1, "bob", "10", `"k"`); err != nil || replayed {
		t.Errorf("another scope got %v, replay %v", err, replayed)
	}
	s.expectRuns(2)
}

// The calls that come while the first runs get its answer.
func TestCallsThatComeMeanwhileGetTheAnswer(t *testing.T) {
	const callers = 8
	queued := make(chan struct{})
	s := newTill(t, func() (string, error) {
		<-queued
		return "paid", nil
	}).open()
	type answer struct {
		text     string
		replayed bool
		err      error
	}
	got := make(chan answer, callers)
	for i := range callers {
		go func() {
			text, replayed, err := s.call("binary", i%2, "ann", "10", "k")
			got <- answer{text, replayed, err}
		}()
	}
	close(queued)
	fresh := 0
	for range callers {
		a := <-got
		if a.text != "paid" || a.err != nil {
			t.Errorf("got %q, %v", a.text, a.err)
		}
		if !a.replayed {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers are not marked as replays, want 1", fresh)
	}
	s.expectRuns(1)
}

func TestWhichErrorsAreKept(t *testing.T) {
	with := func(c connect.Code, details ...*connect.ErrorDetail) error {
		e := connect.NewError(c, errors.New("own"))
		for _, d := range details {
			e.AddDetail(d)
		}
		return e
	}
	later, _ := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	field, _ := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "NO_MONEY", Domain: "shop"})
	rows := map[error]bool{
		with(connect.CodeFailedPrecondition, later): false,
		with(connect.CodeFailedPrecondition, field): true,
		errors.New("own"):    false,
		&guard.HeldError{}:   false,
		guard.ErrUnavailable: false,
	}
	for c := connect.CodeCanceled; c <= connect.CodeUnauthenticated; c++ {
		switch c {
		case 3, 5, 6, 7, 9, 11, 12:
			rows[with(c)] = true
		default:
			rows[with(c)] = false
		}
	}
	var own error
	s := newTill(t, func() (string, error) { return "", own }).open()
	for err, kept := range rows {
		own = err
		s.runs.Store(0)
		_, early, first := s.call("binary", 0, "ann", "10", "k")
		_, replayed, then := s.call("binary", 1, "ann", "10", "k")
		if early || replayed != kept || connect.CodeOf(first) != connect.CodeOf(then) || first.Error() != then.Error() {
			t.Errorf("%v: got %v, then %v, replay %v, %v", err, first, then, early, replayed)
		}
		if a, b := details(first), details(then); a != b {
			t.Errorf("%v: %d details, then %d", err, a, b)
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

func details(err error) int {
	e := (*connect.Error)(nil)
	_ = errors.As(err, &e)
	return len(e.Details())
}

func TestALostLeaseKeepsNoAnswer(t *testing.T) {
	var s *till
	s = newTill(t, func() (string, error) {
		if s.runs.Load() == 1 {
			s.locker.Lose(guard.Key("idempotent", "ann", "k"))
		}
		return "paid", nil
	}).open()
	_, _, err := s.call("binary", 0, "ann", "10", "k")
	want(t, "a lost lease", err, connect.CodeInternal, "LOCK_LOST", false)
	if got, replayed, err := s.call("binary", 1, "ann", "10", "k"); got != "paid" || err != nil || replayed {
		t.Errorf("then %q, %v, replay %v", got, err, replayed)
	}
	s.expectRuns(2)
}

// A lock in front of the handler has done nothing, so its refusal leaves no
// mark. An error of the handler does.
func TestAtMostOnceNoCallRunsAgainThatMayHavePaid(t *testing.T) {
	s := newTill(t, func() (string, error) { return "", errors.New("own") }, guard.WithAtMostOnce())
	shop := s.guards[0].With(guard.WithMaxWait(0))
	s.inside = []connect.Interceptor{lockmw.Interceptor(lockmw.Key(shop, buy, key))}
	s.open()
	l, err := s.guards[1].Acquire(t.Context(), guard.Key("stock", "10"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.call("binary", 0, "ann", "10", "k")
	want(t, "a lock inside", err, connect.CodeAborted, "LOCK_HELD", true)
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	s.expectRuns(0)
	if _, _, err = s.call("binary", 0, "ann", "10", "k"); connect.CodeOf(err) != connect.CodeUnknown {
		t.Errorf("got %v", err)
	}
	_, _, err = s.call("binary", 1, "ann", "10", "k")
	want(t, "then", err, connect.CodeFailedPrecondition, "IDEMPOTENCY_INTERRUPTED", false)
	s.expectRuns(1)
}

func TestAnAnswerThatIsTooLongIsGone(t *testing.T) {
	s := newTill(t, func() (string, error) { return strings.Repeat("x", 100), nil }, guard.WithResultLimit(100)).open()
	if got, _, err := s.call("binary", 0, "ann", "10", "k"); len(got) != 100 || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	_, _, err := s.call("binary", 1, "ann", "10", "k")
	want(t, "then", err, connect.CodeFailedPrecondition, "IDEMPOTENCY_ANSWER_GONE", false)
	s.expectRuns(1)
}

// The types of Connect fix the response of a handler, but nothing tells Go that
// Idempotent has the same one.
func TestAResponseOfAnotherTypeRunsOnceAndIsGone(t *testing.T) {
	s := newTill(t, func() (string, error) { return "paid", nil })
	rule := lockmw.Idempotent[wrapperspb.BytesValue](s.guards[0], buy, tenant, time.Hour)
	server := httptest.NewServer(connect.NewUnaryHandler(buy, s.pay,
		connect.WithInterceptors(authentication{}, lockmw.Interceptor(rule))))
	t.Cleanup(server.Close)
	client := connect.NewClient[message, message](server.Client(), server.URL+buy)
	s.clients = map[string][2]*connect.Client[message, message]{"binary": {client, client}}
	if got, _, err := s.call("binary", 0, "ann", "10", "k"); got != "paid" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	_, _, err := s.call("binary", 0, "ann", "10", "k")
	want(t, "then", err, connect.CodeFailedPrecondition, "IDEMPOTENCY_ANSWER_GONE", false)
	s.expectRuns(1)
	if err := lockmw.Verify(rule); err == nil || !strings.Contains(err.Error(), "the responses of the procedure are") {
		t.Errorf("Verify found %v", err)
	}
	good := lockmw.Idempotent[message](s.guards[0], buy, tenant, time.Hour)
	connect.NewUnaryHandler(buy, s.pay, connect.WithInterceptors(lockmw.Interceptor(good)))
	if err := lockmw.Verify(good); err != nil {
		t.Error(err)
	}
}

func TestAStreamWithARuleOfIdempotentDoesNotRun(t *testing.T) {
	s := newTill(t, nil)
	rule := lockmw.Idempotent[message](s.guards[0], watch, tenant, time.Hour)
	server := serve(t, func(context.Context, string) error {
		t.Error("the handler ran")
		return nil
	}, rule)
	want(t, "a stream", call(t.Context(), server, watch, "42"), connect.CodeInternal, "LOCK_MISCONFIGURED", false)
	if err := lockmw.Verify(rule); err == nil || !strings.Contains(err.Error(), "the method streams") {
		t.Errorf("Verify found %v", err)
	}
}

func TestIdempotentRefusesWhatCannotWork(t *testing.T) {
	for name, f := range map[string]func(){
		"no scope":   func() { lockmw.Idempotent[message](nil, buy, nil, time.Hour) },
		"no ttl":     func() { lockmw.Idempotent[message](nil, buy, tenant, 0) },
		"a bad name": func() { lockmw.Idempotent[message](nil, "buy", tenant, time.Hour) },
		"no message": func() { lockmw.Idempotent[string](nil, buy, tenant, time.Hour) },
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

func TestTheOptionsOfIdempotent(t *testing.T) {
	runs, told, scope := 0, 0, func(context.Context) (string, error) { return "ann", nil }
	rule := lockmw.Idempotent[message](guardtest.New(t).Guard, buy, scope, time.Hour,
		rpcopt.WithIdempotencyKey(func(_ context.Context, m *message) (string, error) {
			id, _, _ := strings.Cut(m.GetValue(), " ")
			return id, nil
		}),
		rpcopt.WithFingerprint(func(_ context.Context, m *message) (string, error) {
			_, cents, _ := strings.Cut(m.GetValue(), " ")
			return strings.TrimSpace(cents), nil
		}),
		rpcopt.WithOptionalKey(), rpcopt.WithReplayHook(func(context.Context) { told++ }))
	server := httptest.NewServer(connect.NewUnaryHandler(buy,
		func(context.Context, *connect.Request[message]) (*connect.Response[message], error) {
			runs++
			return connect.NewResponse(wrapperspb.String("paid")), nil
		}, connect.WithInterceptors(lockmw.Interceptor(rule))))
	defer server.Close()
	client := connect.NewClient[message, message](server.Client(), server.URL+buy)
	for _, row := range []struct {
		text       string
		runs, told int
		code       connect.Code
	}{
		{"k 10", 1, 0, 0},
		{"k  10", 1, 1, 0},
		{"k 11", 1, 1, connect.CodeInvalidArgument},
		{"", 2, 1, 0},
		{"", 3, 1, 0},
		{strings.Repeat("k", 256), 3, 1, connect.CodeInvalidArgument},
	} {
		_, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String(row.text)))
		if runs != row.runs || told != row.told || (err == nil) != (row.code == 0) ||
			err != nil && connect.CodeOf(err) != row.code {
			t.Errorf("%.20q: %d runs, told %d times, %v", row.text, runs, told, err)
		}
	}
}

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

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/connectv2"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

func tenant(ctx context.Context) (string, error) {
	info, _ := connect.CallInfoForServerContext(ctx)
	return info.RequestHeader().Get("Tenant"), nil
}

// till is a procedure that pays, in two instances behind a rule of Idempotent.
type till struct {
	*testing.T

	locker  *memlocker.Locker
	guards  [2]*guard.Guard
	runs    atomic.Int32
	clients [2]*connect.Client
}

func newTill(t *testing.T, answer func() (string, error), opts ...guard.Option) *till {
	t.Helper()
	return newTillWith(t, answer, nil, opts...)
}

func newTillWith(
	t *testing.T, answer func() (string, error), changes []rpcopt.IdempotentOption, opts ...guard.Option,
) *till {
	t.Helper()
	s := &till{T: t, locker: memlocker.New()}
	for i, l := range []guard.Locker{s.locker, s.locker.Peer()} {
		g, err := guard.New(l, append([]guard.Option{quiet, guard.WithMaxWait(time.Minute)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		s.guards[i] = g
		rule := lockmw.Idempotent[*message, *message](g, buy, tenant, time.Hour, changes...)
		server := connect.NewServer(lockmw.Interceptor(rule))
		server.Register(connect.Method{Spec: spec(buy), Handler: func(
			_ context.Context, _ connect.Spec, stream connect.ServerStream,
		) error {
			if err := stream.Receive(new(message)); err != nil {
				return err
			}
			s.runs.Add(1)
			text, err := answer()
			if err != nil {
				return err
			}
			return stream.Send(wrapperspb.String(text))
		}})
		mux := http.NewServeMux()
		connecthttp.Mount(mux, server)
		h := httptest.NewServer(mux)
		t.Cleanup(h.Close)
		s.clients[i] = connect.NewClient(connecthttp.NewTransport(h.Client(), h.URL))
	}
	return s
}

// call pays at an instance. It returns whether it was a replay.
func (s *till) call(instance int, tenant, text string, keys ...string) (string, bool, error) {
	ctx, info := connect.NewClientContext(s.Context())
	info.RequestHeader().Set("Tenant", tenant)
	info.RequestHeader().SetValues("Idempotency-Key", keys)
	got := new(message)
	err := s.clients[instance].CallUnary(ctx, spec(buy), wrapperspb.String(text), got)
	return got.GetValue(), info.ResponseHeader().Get("Idempotency-Replayed") == "true", err
}

func (s *till) expectRuns(n int32) {
	s.Helper()
	if got := s.runs.Swap(0); got != n {
		s.Errorf("%d runs, want %d", got, n)
	}
}

func TestACallThatComesAgainGetsTheAnswer(t *testing.T) {
	s := newTill(t, func() (string, error) { return "paid", nil })
	for i := range 4 {
		got, replayed, err := s.call(i%2, "ann", "10", "k")
		if got != "paid" || err != nil || replayed != (i > 0) {
			t.Errorf("%d: got %q, %v, replay %v", i, got, err, replayed)
		}
	}
	s.expectRuns(1)
	_, _, err := s.call(1, "ann", "11", "k")
	want(t, "another message", err, connect.CodeInvalidArgument, "IDEMPOTENCY_KEY_REUSED", false)
	for _, keys := range [][]string{nil, {""}, {"k", "k"}, {"k 1"}} {
		_, _, err := s.call(0, "ann", "10", keys...)
		want(t, "a bad key", err, connect.CodeInvalidArgument, "IDEMPOTENCY_KEY_INVALID", false)
	}
	_, _, err = s.call(0, "", "10", "k")
	want(t, "an empty scope", err, connect.CodeInternal, "LOCK_MISCONFIGURED", false)
	s.expectRuns(0)
	if _, replayed, err := s.call(1, "bob", "10", `"k"`); err != nil || replayed {
		t.Errorf("another scope got %v, replay %v", err, replayed)
	}
	s.expectRuns(1)
}

func TestACallThatComesMeanwhileIsRefusedOrGetsTheAnswer(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	s := newTill(t, func() (string, error) {
		close(begun)
		<-end
		return "paid", nil
	}, guard.WithMaxWait(0))
	first := make(chan error, 1)
	go func() {
		_, replayed, err := s.call(0, "ann", "10", "k")
		if replayed {
			err = errors.New("the first answer is marked as a replay")
		}
		first <- err
	}()
	<-begun
	_, _, err := s.call(1, "ann", "10", "k")
	want(t, "in progress", err, connect.CodeAborted, "LOCK_HELD", true)
	close(end)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if got, replayed, err := s.call(1, "ann", "10", "k"); got != "paid" || !replayed || err != nil {
		t.Errorf("then %q, %v, replay %v", got, err, replayed)
	}
	s.expectRuns(1)
}

func TestTheOptionsOfIdempotent(t *testing.T) {
	var told atomic.Int32
	s := newTillWith(t, func() (string, error) { return "paid", nil }, []rpcopt.IdempotentOption{
		rpcopt.WithIdempotencyKey(func(_ context.Context, m *message) (string, error) {
			id, _, _ := strings.Cut(m.GetValue(), " ")
			return id, nil
		}),
		rpcopt.WithFingerprint(func(_ context.Context, m *message) (string, error) {
			_, cents, _ := strings.Cut(m.GetValue(), " ")
			return strings.TrimSpace(cents), nil
		}),
		rpcopt.WithOptionalKey(), rpcopt.WithReplayHook(func(context.Context) { told.Add(1) }),
	})
	for i, row := range []struct {
		text     string
		runs     int32
		replayed bool
	}{{"k 10", 1, false}, {"k  10", 0, true}, {"", 1, false}, {"", 1, false}} {
		_, replayed, err := s.call(i%2, "ann", row.text)
		if err != nil || replayed != row.replayed || replayed != (told.Swap(0) == 1) {
			t.Errorf("%q: %v, replay %v", row.text, err, replayed)
		}
		s.expectRuns(row.runs)
	}
	_, _, err := s.call(0, "ann", "k 11")
	want(t, "other cents", err, connect.CodeInvalidArgument, "IDEMPOTENCY_KEY_REUSED", false)
	s.expectRuns(0)
}

func TestWhichErrorsAreKept(t *testing.T) {
	of := func(c connect.Code) *connect.Error { return connect.NewError(c, "own") }
	later, _ := connectproto.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	field, _ := connectproto.NewErrorDetail(&errdetails.ErrorInfo{Reason: "NO_MONEY", Domain: "shop"})
	rows := map[error]bool{
		of(connect.CodeFailedPrecondition).WithDetail(later): false,
		of(connect.CodeFailedPrecondition).WithDetail(field): true,
		of(connect.CodeFailedPrecondition).WithRemote():      false,
		errors.New("own"):    false,
		&guard.HeldError{}:   false,
		guard.ErrUnavailable: false,
	}
	for c := connect.CodeCanceled; c <= connect.CodeUnauthenticated; c++ {
		switch c {
		case 3, 5, 6, 7, 9, 11, 12:
			rows[of(c)] = true
		default:
			rows[of(c)] = false
		}
	}
	var own error
	s := newTill(t, func() (string, error) { return "", own })
	for err, kept := range rows {
		own = err
		_, early, first := s.call(0, "ann", "10", "k")
		_, replayed, then := s.call(1, "ann", "10", "k")
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
	})
	_, _, err := s.call(0, "ann", "10", "k")
	want(t, "a lost lease", err, connect.CodeInternal, "LOCK_LOST", false)
	if got, replayed, err := s.call(1, "ann", "10", "k"); got != "paid" || err != nil || replayed {
		t.Errorf("then %q, %v, replay %v", got, err, replayed)
	}
	s.expectRuns(2)
}

func TestAnAnswerThatIsTooLongIsGone(t *testing.T) {
	s := newTill(t, func() (string, error) { return strings.Repeat("x", 100), nil }, guard.WithResultLimit(100))
	if got, _, err := s.call(0, "ann", "10", "k"); len(got) != 100 || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	_, _, err := s.call(1, "ann", "10", "k")
	want(t, "then", err, connect.CodeFailedPrecondition, "IDEMPOTENCY_ANSWER_GONE", false)
	s.expectRuns(1)
}

func TestAStreamWithARuleOfIdempotentDoesNotRun(t *testing.T) {
	s := newTill(t, nil)
	clients := serve(t, func(context.Context, string) error {
		t.Error("the handler ran")
		return nil
	}, lockmw.Idempotent[*message, *message](s.guards[0], watch, tenant, time.Hour))
	err := call(t.Context(), clients["grpc"], watch, "42")
	want(t, "a stream", err, connect.CodeInternal, "LOCK_MISCONFIGURED", false)
}

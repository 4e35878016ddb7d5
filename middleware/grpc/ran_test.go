package lockmw_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

// retries is the configuration of a client that repeats all statuses that some
// client repeats by itself.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED"]}}]}`

func TestAClientThatRepeatsCallsPaysOnce(t *testing.T) {
	mem := memlocker.New()
	g := newGuard(t, mem, guard.WithMaxWait(0))
	other := newGuard(t, mem.Peer())
	ledger, err := other.Acquire(t.Context(), "ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ledger.Release(t.Context()) }()

	inner := map[string]func(ctx context.Context) error{
		"held":        func(ctx context.Context) error { return g.Do(ctx, "ledger", never(t)) },
		"queue full":  func(context.Context) error { return guard.ErrQueueFull },
		"unavailable": func(context.Context) error { return guard.ErrUnavailable },
		"by Error": func(ctx context.Context) error {
			return lockmw.Error(ctx, g.Do(ctx, "ledger", never(t)))
		},
		"after the release": func(ctx context.Context) error {
			return lockmw.Error(t.Context(), g.Do(ctx, "account",
				func(ctx context.Context) error { return g.Do(ctx, "ledger", never(t)) }))
		},
	}
	for name, fails := range inner {
		var paid atomic.Int32
		s := &shop{
			buy: func(ctx context.Context) error {
				paid.Add(1)
				return fails(ctx)
			},
			stream: func(ss grpc.ServerStream) error {
				paid.Add(1)
				if err := ss.RecvMsg(new(message)); err != nil {
					return err
				}
				return fails(ss.Context())
			},
		}
		c := dial(t, g, s, grpc.WithDefaultServiceConfig(retries))
		if code := status.Code(call(t.Context(), c, buy, "s3cret")); code != codes.Internal || paid.Load() != 1 {
			t.Errorf("%s: a call ended with %v and paid %d times", name, code, paid.Load())
		}
		paid.Store(0)
		_, err := open(t.Context(), c, watch, "s3cret")
		if code := status.Code(err); code != codes.Internal || paid.Load() != 1 {
			t.Errorf("%s: a stream ended with %v and paid %d times", name, code, paid.Load())
		}
	}
}

// Without a rule it is unknown what a handler has done before it calls Error.
func TestErrorAsksNobodyToRepeatACall(t *testing.T) {
	for refusal, is := range map[error]struct {
		code   codes.Code
		reason string
	}{
		&guard.HeldError{Remaining: time.Minute}: {codes.Aborted, "LOCK_HELD"},
		guard.ErrQueueFull:                       {codes.ResourceExhausted, "LOCK_QUEUE_FULL"},
		guard.ErrUnavailable:                     {codes.Unavailable, "LOCK_UNAVAILABLE"},
	} {
		err := lockmw.Error(t.Context(), refusal)
		want(t, err, is.code, is.reason, false)
		if text := status.Convert(err).Message(); !strings.Contains(text, "may have been carried out") {
			t.Errorf("%v: the status says that nothing was done: %s", refusal, text)
		}
	}
}

func never(t *testing.T) func(context.Context) error {
	t.Helper()
	return func(context.Context) error { t.Error("it ran"); return nil }
}

// tries counts the tries for keys.
type tries struct {
	guard.Locker
	n atomic.Int32
}

func (t *tries) Acquire(ctx context.Context, c *locker.Claim, how locker.Try) (locker.Answer, error) {
	t.n.Add(1)
	return t.Locker.Acquire(ctx, c, how)
}

// Otherwise the test above would pass with a client that repeats nothing.
func TestAClientRepeatsTheWaitForTheRulesOwnKey(t *testing.T) {
	mem := memlocker.New()
	other := newGuard(t, mem.Peer())
	stock, err := other.Acquire(t.Context(), guard.Key("stock", "s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stock.Release(t.Context()) }()
	spy := &tries{Locker: mem}
	c := dial(t, newGuard(t, spy, guard.WithMaxWait(0)), &shop{buy: never(t)}, grpc.WithDefaultServiceConfig(retries))
	want(t, call(t.Context(), c, buy, "s3cret"), codes.Aborted, "LOCK_HELD", true)
	if got := spy.n.Load(); got != 4 {
		t.Errorf("the client tried %d times, want 4", got)
	}
}

// The handler has not run, whatever is around the rule that refuses.
func TestARuleInsideAnotherOneIsRefusedAsWhatItIs(t *testing.T) {
	mem := memlocker.New()
	g := newGuard(t, mem, guard.WithMaxWait(0))
	stock, err := newGuard(t, mem.Peer()).Acquire(t.Context(), "stock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stock.Release(t.Context()) }()
	by := func(name string) func(*message) string { return func(*message) string { return name } }
	ann := func(context.Context) (string, error) { return "ann", nil }
	info := &grpc.UnaryServerInfo{FullMethod: buy}
	inner := lockmw.Unary(lockmw.Key(g, buy, by("stock")))
	for name, outer := range map[string]lockmw.Rule{
		"a lock": lockmw.Key(g, buy, by("account")),
		"Idempotent": lockmw.Idempotent(g.With(guard.WithAtMostOnce()), buy, ann, time.Hour,
			rpcopt.WithIdempotencyKey(func(context.Context, *message) (string, error) { return "k", nil }),
			rpcopt.WithoutFingerprint()),
	} {
		around := lockmw.Unary(outer)
		for range 2 { // nothing was done, so the second call is the same
			_, err := around(t.Context(), &message{}, info, func(ctx context.Context, req any) (any, error) {
				return inner(ctx, req, info, func(context.Context, any) (any, error) {
					t.Errorf("%s: the handler ran", name)
					return nil, nil
				})
			})
			want(t, err, codes.Aborted, "LOCK_HELD", true)
		}
	}
}

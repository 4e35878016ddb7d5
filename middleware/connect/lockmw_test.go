package lockmw_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

func TestMain(m *testing.M) {
	if err := register(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
	os.Exit(0)
}

// every has a procedure of each kind.
var every = []string{buy, watch, gather, haggle}

var quiet = guard.WithLogger(slog.New(slog.DiscardHandler))

// want checks the code and the reason of an error, and whether it asks to try
// again.
func want(t *testing.T, what string, err error, code connect.Code, reason string, retry bool) {
	t.Helper()
	e := new(connect.Error)
	if !errors.As(err, &e) {
		t.Errorf("%s: got %v, want %v %s", what, err, code, reason)
		return
	}
	var gotReason string
	var after time.Duration
	for _, d := range e.Details() {
		switch d, _ := d.Value(); d := d.(type) {
		case *errdetails.ErrorInfo:
			gotReason = d.GetReason()
			if d.GetDomain() != lockmw.Domain {
				t.Errorf("%s: the domain is %q", what, d.GetDomain())
			}
		case *errdetails.RetryInfo:
			after = d.GetRetryDelay().AsDuration()
		}
	}
	header := ""
	if after > 0 {
		header = strconv.Itoa(int(after.Seconds()))
	}
	if e.Code() != code || gotReason != reason || retry != (after >= time.Second) ||
		e.Meta().Get("Retry-After") != header {
		t.Errorf("%s: got %v %q %q, again after %v, Retry-After %q; want %v %q, again %t", what, e.Code(), gotReason,
			e.Message(), after, e.Meta().Get("Retry-After"), code, reason, retry)
	}
	if strings.Contains(e.Message(), "s3cret") {
		t.Errorf("%s: the error names the key: %v", what, e)
	}
}

func TestTheHandlersContextCarriesTheLease(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	s := serve(t, func(ctx context.Context, sku string) error {
		if _, locked := guard.LeaseOf(ctx, guard.Key("stock", "42")); !locked {
			t.Error("no lease")
		}
		return g.Do(ctx, guard.Key("stock", "42"), func(context.Context) error { return nil }) // inside
	}, rules(g.Guard)...)
	for _, procedure := range every {
		if err := call(t.Context(), s, procedure, "42"); err != nil {
			t.Errorf("%s: %v", procedure, err)
		}
	}
}

func TestALostLeaseEndsTheHandlersContext(t *testing.T) {
	g := guardtest.New(t, guard.WithTTL(3*time.Second), quiet)
	s := serve(t, func(ctx context.Context, _ string) error {
		g.Lose(guard.Key("stock", "42"))
		<-ctx.Done()
		return context.Cause(ctx)
	}, rules(g.Guard)...)
	for _, procedure := range every {
		want(t, procedure, call(t.Context(), s, procedure, "42"), connect.CodeInternal, "LOCK_LOST", false)
	}
}

func TestAPanicLeavesTheKeyFree(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	s := serve(t, func(context.Context, string) error { panic("own") }, rules(g.Guard)...)
	for _, procedure := range every {
		if err := call(t.Context(), s, procedure, "42"); err == nil {
			t.Errorf("%s: no error", procedure)
		}
		g.Hold(guard.Key("stock", "42"))() // fails if the key is still held
	}
}

// waits tells how waits begin and end.
type waits struct {
	guard.NopObserver

	began chan struct{}
	ended chan error
}

func (w waits) WaitStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	w.began <- struct{}{}
	return ctx
}

func (w waits) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) { w.ended <- r.Err }

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) {
	w := waits{began: make(chan struct{}, 1), ended: make(chan error, 1)}
	g := guardtest.New(t, guard.WithMaxWait(time.Hour), guard.WithObserver(w))
	g.Hold(guard.Key("stock", "42"))
	s := serve(t, done, rules(g.Guard)...)
	for _, procedure := range every {
		for protocol, opts := range protocols {
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() { // ends with leave
				defer close(gone)
				_ = call(ctx, s, procedure, "42", opts...)
			}()
			<-w.began
			leave()
			if err := <-w.ended; !errors.Is(err, guard.ErrNotAcquired) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s%s: the wait ended with %v", protocol, procedure, err)
			}
			<-gone
		}
	}
}

// One call contends for the key, one is in line, and one is too many.
func TestOfThreeCallsOneFindsTheQueueFull(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(time.Hour), guard.WithMaxWaiters(1), quiet)
	s := serve(t, done, rules(g.Guard)...)
	for _, procedure := range every {
		release := g.Hold(guard.Key("stock", "42"))
		results := make(chan error)
		for range 3 {
			go func() { results <- call(t.Context(), s, procedure, "42") }() // ends with release
		}
		want(t, procedure, <-results, connect.CodeResourceExhausted, "LOCK_QUEUE_FULL", true)
		release()
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("%s: %v", procedure, err)
			}
		}
	}
}

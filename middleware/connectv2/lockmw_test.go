package lockmw_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/connectv2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		switch d, _ := connectproto.UnmarshalErrorDetail(d); d := d.(type) {
		case *errdetails.ErrorInfo:
			gotReason = d.GetReason()
		case *errdetails.RetryInfo:
			after = d.GetRetryDelay().AsDuration()
		}
	}
	if e.Code() != code || gotReason != reason || retry != (after >= time.Second) {
		t.Errorf("%s: got %v %q %q, again after %v; want %v %q, again %t", what, e.Code(), gotReason,
			e.Message(), after, code, reason, retry)
	}
	if strings.Contains(e.Message(), "s3cret") {
		t.Errorf("%s: the error names the key: %v", what, e)
	}
}

// answers is a handler that returns err.
func answers(err error) handler { return func(context.Context, string) error { return err } }

// queueFull is a handler that makes an answer of a refusal of its own.
func queueFull(ctx context.Context, _ string) error { return lockmw.Error(ctx, guard.ErrQueueFull) }

// A row is a call and what its client sees.
type row struct {
	procedures []string     // those of every if there are none
	sku        string       // "s3cret" if it is empty
	handler    handler      // done if it is nil
	held, down bool         // the key is held by another process, the store is down
	code       connect.Code // 0 is success
	reason     string
	retry      bool
}

func table() map[string]row {
	const internal = connect.CodeInternal
	own := connect.NewError(connect.CodeFailedPrecondition, "own").WithCause(guard.ErrNotAcquired)
	return map[string]row{
		"free": {},
		"held": {held: true, code: connect.CodeAborted, reason: "LOCK_HELD", retry: true},
		"held, two routes": {
			procedures: []string{price}, held: true, code: connect.CodeAborted, reason: "LOCK_HELD", retry: true,
		},
		"no rule":    {procedures: []string{look}, held: true},
		"store down": {down: true, code: connect.CodeUnavailable, reason: "LOCK_UNAVAILABLE", retry: true},
		"no key":     {sku: "-", code: connect.CodeInvalidArgument, reason: "LOCK_KEY_INVALID"},
		"key too long": {
			sku: strings.Repeat("s3cret", 20_000), code: connect.CodeInvalidArgument, reason: "LOCK_KEY_INVALID",
		},
		"another type":    {procedures: []string{confuse}, code: internal, reason: "LOCK_MISCONFIGURED"},
		"a formatted key": {procedures: []string{botch}, code: internal, reason: "LOCK_MISCONFIGURED"},
		"its own error":   {handler: answers(errors.New("own")), code: connect.CodeUnknown},
		"a refusal of its own": {
			handler: answers(&guard.HeldError{Key: "s3cret"}), code: internal, reason: "LOCK_HELD",
		},
		"a refusal with a code of its own": {handler: answers(own), code: connect.CodeFailedPrecondition},
		"a refusal, by Error":              {handler: queueFull, code: internal, reason: "LOCK_QUEUE_FULL"},
		"a refusal without a rule, by Error": {
			procedures: []string{look}, handler: queueFull,
			code: connect.CodeResourceExhausted, reason: "LOCK_QUEUE_FULL",
		},
		"a loss with a code of its own": {
			handler: answers(connect.NewError(connect.CodeUnavailable, "own").WithCause(guard.ErrLeaseLost)),
			code:    internal, reason: "LOCK_LOST",
		},
	}
}

func TestTheTable(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), quiet)
	var h handler
	clients := serve(t, func(ctx context.Context, sku string) error { return h(ctx, sku) }, rules(g.Guard)...)
	for name, r := range table() {
		if h = r.handler; h == nil {
			h = done
		}
		if len(r.procedures) == 0 {
			r.procedures = every
		}
		undo := func() {}
		switch {
		case r.held:
			undo = g.Hold(guard.Key("stock", "s3cret"))
		case r.down:
			undo = g.Break()
		}
		for _, procedure := range r.procedures {
			for protocol, c := range clients {
				what := protocol + procedure + ", " + name
				ctx, info := connect.NewClientContext(t.Context())
				err := call(ctx, c, procedure, cmp.Or(r.sku, "s3cret"))
				if r.code != 0 {
					want(t, what, err, r.code, r.reason, r.retry)
				} else if err != nil {
					t.Errorf("%s: got %v", what, err)
				}
				after := info.ResponseHeader().Get("Retry-After") + info.ResponseTrailer().Get("Retry-After")
				n, _ := strconv.Atoi(after)
				if r.retry != (n > 0) {
					t.Errorf("%s: Retry-After is %d", what, n)
				}
			}
		}
		undo()
	}
}

func TestCallsOfOneKeyRunOneAtATimeInAllProtocols(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(time.Hour))
	var inside, all atomic.Int32
	clients := serve(t, func(ctx context.Context, _ string) error {
		defer inside.Add(-1)
		if n := inside.Add(1); n > 1 {
			t.Errorf("%d calls at once", n)
		}
		time.Sleep(time.Millisecond) // for others to come
		all.Add(1)
		return g.Do(ctx, guard.Key("stock", "42"), func(context.Context) error { return nil }) // inside
	}, rules(g.Guard)...)
	var wg sync.WaitGroup
	for protocol, c := range clients {
		for _, procedure := range append(every, price) {
			wg.Go(func() {
				if err := call(t.Context(), c, procedure, "42"); err != nil {
					t.Errorf("%s%s: %v", protocol, procedure, err)
				}
			})
		}
	}
	wg.Wait()
	if n, want := int(all.Load()), len(clients)*(len(every)+1); n != want {
		t.Errorf("%d calls are done, want %d", n, want)
	}
}

// A call with one response has none if the lease was lost, though its handler
// has sent it.
func TestALostLeaseEndsTheHandlersContext(t *testing.T) {
	g := guardtest.New(t, guard.WithTTL(3*time.Second), quiet)
	clients := serve(t, func(ctx context.Context, sku string) error {
		g.Lose(guard.Key("stock", sku))
		<-ctx.Done()
		if sku == "hides" {
			return nil
		}
		return context.Cause(ctx)
	}, rules(g.Guard)...)
	for _, procedure := range every {
		for _, sku := range []string{"42", "hides"} {
			want(t, procedure, call(t.Context(), clients["connect"], procedure, sku),
				connect.CodeInternal, "LOCK_LOST", false)
		}
	}
}

func TestAPanicLeavesTheKeyFree(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	clients := serve(t, func(context.Context, string) error { panic("own") }, rules(g.Guard)...)
	for _, procedure := range every {
		if err := call(t.Context(), clients["connect"], procedure, "42"); err == nil {
			t.Errorf("%s: no error", procedure)
		}
		g.Hold(guard.Key("stock", "42"))() // fails if the key is still held
	}
}

func TestACallWithSeveralKeysHoldsThemAll(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), quiet)
	keys := func(_ context.Context, m *message) ([]string, error) {
		return strings.Split(m.GetValue(), " "), nil
	}
	clients := serve(t, func(ctx context.Context, _ string) error {
		for _, k := range []string{"a", "b"} {
			if _, held := guard.LeaseOf(ctx, k); !held {
				t.Errorf("%s is not held", k)
			}
		}
		return nil
	}, lockmw.KeysFunc(g.Guard, buy, keys))
	if err := call(t.Context(), clients["grpc"], buy, "b a b"); err != nil {
		t.Error(err)
	}
	g.Hold("b")
	want(t, "one is held", call(t.Context(), clients["grpc"], buy, "a b"), connect.CodeAborted, "LOCK_HELD", true)
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
	clients := serve(t, done, rules(g.Guard)...)
	for _, procedure := range every {
		for protocol, c := range clients {
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() { // ends with leave
				defer close(gone)
				_ = call(ctx, c, procedure, "42")
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

func TestARuleByWhichNothingIsLockedIsFoundBeforeTheStart(t *testing.T) {
	rule := func(procedure string) lockmw.Rule { return lockmw.Key(nil, procedure, key) }
	used := func(r lockmw.Rule) lockmw.Rule { registered(done, lockmw.Interceptor(r)); return r }
	server := registered(done)
	right := []lockmw.Rule{
		used(rule(buy)), used(rule(watch)), used(rule(gather)),
		used(lockmw.Idempotent[*message, *message](nil, price, tenant, time.Hour)),
	}
	if err := lockmw.Verify(server, right...); err != nil {
		t.Errorf("refused what is right: %v", err)
	}
	for wrong, r := range map[string]lockmw.Rule{
		`"/shop.Stock/Bye": the service has no such method, only ["Botch" "Buy"`: used(rule("/shop.Stock/Bye")),
		`"/shop.stock/Buy": there is no such service, only ["shop.Stock"]`:       used(rule("/shop.stock/Buy")),
		`"/shop.Stock/Haggle": no interceptor that is in use has it`:             rule(haggle),
		`"": it was not made by Key, KeyFunc or KeysFunc`:                        {},
		`"/shop.Stock/Buy": the messages of the procedure are google.protobuf.StringValue, not *wrapperspb.BytesValue`: used(
			lockmw.Key(nil, buy, func(*wrapperspb.BytesValue) string { return "k" })),
		`"/shop.Stock/Buy": the responses of the procedure are google.protobuf.StringValue, not *wrapperspb.BytesValue`: used(
			lockmw.Idempotent[*message, *wrapperspb.BytesValue](nil, buy, tenant, time.Hour)),
		`"/shop.Stock/Watch": the method streams`: used(
			lockmw.Idempotent[*message, *message](nil, watch, tenant, time.Hour)),
	} {
		err := lockmw.Verify(server, append(right, r)...)
		if err == nil || !strings.Contains(err.Error(), wrong) || strings.Count(err.Error(), "rule for") != 1 {
			t.Errorf("got %v, want %s", err, wrong)
		}
		if !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%v is no ErrInvalidOption", err)
		}
	}
}

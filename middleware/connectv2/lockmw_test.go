package lockmw_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/connectv2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = guard.WithLogger(slog.New(slog.DiscardHandler))

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
	want(t, clients["grpc"], buy, "a b", connect.CodeAborted, "LOCK_HELD")
}

func TestAStreamWithARuleOfIdempotentDoesNotRun(t *testing.T) {
	clients := serve(t, func(context.Context, string) error {
		t.Error("the handler ran")
		return nil
	}, lockmw.Idempotent[*message, *message](guardtest.New(t, quiet).Guard, watch, tenant, time.Hour))
	want(t, clients["grpc"], watch, "42", connect.CodeInternal, "LOCK_MISCONFIGURED")
}

// want checks the answer to a call.
func want(t *testing.T, c *connect.Client, procedure, sku string, code connect.Code, reason string) {
	t.Helper()
	ctx, info := connect.NewClientContext(t.Context())
	if r := reply(call(ctx, c, procedure, sku), info); r.Code != int(code) || r.Reason != reason {
		t.Errorf("%s: got %+v, want %v %q", procedure, r, code, reason)
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

package lockmw_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

// The types of Connect fix the response of a handler, but nothing tells Go that
// Idempotent has the same one.
func TestAResponseOfAnotherTypeRunsOnceAndIsGone(t *testing.T) {
	g, runs := guardtest.New(t, quiet).Guard, 0
	rule := lockmw.Idempotent[wrapperspb.BytesValue](g, buy, tenant, time.Hour)
	c := payments(t, func(context.Context) (string, error) {
		runs++
		return "paid", nil
	}, authentication{}, lockmw.Interceptor(rule))[0]
	if got := c.Do(t.Context(), "10", "ann", "k"); got.Text != "paid" || got.Err != nil {
		t.Errorf("got %+v", got)
	}
	if got := c.Do(t.Context(), "10", "ann", "k"); got.Code != int(connect.CodeFailedPrecondition) ||
		got.Reason != "IDEMPOTENCY_ANSWER_GONE" || runs != 1 {
		t.Errorf("then %+v, %d runs", got, runs)
	}
	if err := lockmw.Verify(rule); err == nil || !strings.Contains(err.Error(), "the responses of the procedure are") {
		t.Errorf("Verify found %v", err)
	}
	good := lockmw.Idempotent[message](g, buy, tenant, time.Hour)
	serve(t, done, good)
	if err := lockmw.Verify(good); err != nil {
		t.Error(err)
	}
}

func TestAStreamWithARuleOfIdempotentDoesNotRun(t *testing.T) {
	rule := lockmw.Idempotent[message](guardtest.New(t, quiet).Guard, watch, tenant, time.Hour)
	server := serve(t, func(context.Context, string) error {
		t.Error("the handler ran")
		return nil
	}, rule)
	want(t, "a stream", call(t.Context(), server, watch, "42"), connect.CodeInternal, "LOCK_MISCONFIGURED", false)
	if err := lockmw.Verify(rule); err == nil || !strings.Contains(err.Error(), "the method streams") {
		t.Errorf("Verify found %v", err)
	}
}

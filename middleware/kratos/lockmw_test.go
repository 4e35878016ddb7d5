package lockmw_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-kratos/kratos/v3/log"
	"github.com/go-kratos/kratos/v3/transport/grpc"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/rpcguard"
	lockmw "github.com/go-lockguard/guard/middleware/kratos"
)

func TestMain(m *testing.M) {
	log.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

func done(_ context.Context, m *message) (*message, error) { return m, nil }

// The operation's own limit of waits holds for the wait for an answer too.
func TestACallWaitsForLessThanMaxWait(t *testing.T) {
	var logs bytes.Buffer
	g := guardtest.New(t, guard.WithMaxWait(time.Hour), guard.WithLogger(slog.New(slog.NewTextHandler(&logs, nil))))
	g.Hold(guard.Key("stock", "42"))
	g.Hold(guard.Key("idempotent", "ann", "k"))
	quiet := g.With(guard.WithLogger(slog.New(slog.DiscardHandler)))
	once := lockmw.Idempotent(quiet, price, tenant, time.Hour, lockmw.WithMaxWait(0))
	for kind, calls := range serve(t, done, lockmw.Server(append(rules(g.Guard)[:1], once)...)) {
		for _, c := range calls[:2] {
			if got := c.Do(t.Context(), "42", "ann", "k"); got.Code != rpcguard.Aborted || got.Reason != "LOCK_HELD" {
				t.Errorf("%s: got %+v", kind, got)
			}
		}
	}
	if n := strings.Count(logs.String(), "waits are shorter"); n != 1 {
		t.Errorf("told %d times:\n%s", n, logs.String())
	}
}

func TestARuleByWhichNothingIsLockedIsFoundBeforeTheStart(t *testing.T) {
	s := grpc.NewServer(grpc.Address("127.0.0.1:0"))
	defer func() { _ = s.Stop(t.Context()) }()
	s.RegisterService(desc(done), nil)
	placed := func(operation string) lockmw.Rule {
		r := lockmw.Key(nil, operation, key)
		lockmw.Server(r)
		return r
	}
	right := rules(nil)
	lockmw.Server(right...)
	if err := lockmw.Verify(s, right...); err != nil {
		t.Error(err)
	}
	for text, r := range map[string]lockmw.Rule{
		`"/shop.Stock/Bye": the service has no such method`: placed("/shop.Stock/Bye"),
		`"/shop.stock/Buy": there is no such service`:       placed("/shop.stock/Buy"),
		`"/shop.Stock/Buy": no interceptor that is in use`:  lockmw.Key(nil, buy, key),
		`"": it was not made by Key`:                        {},
	} {
		if err := lockmw.Verify(s, placed(look), r); !errors.Is(err, guard.ErrInvalidOption) ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}

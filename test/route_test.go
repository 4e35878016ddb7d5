package guard_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestWith_ARouteKnowsItsNameAndLogger(t *testing.T) {
	own := slog.New(slog.DiscardHandler)
	g, err := guard.New(memlocker.New(), guard.WithName("stock"), guard.WithLogger(own))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(t.Context()) }()
	var none *guard.Guard
	expect := func(g *guard.Guard, name string, l *slog.Logger) {
		t.Helper()
		if g.Name() != name || g.Logger() != l {
			t.Errorf("got %s, %p; want %s, %p", g.Name(), g.Logger(), name, l)
		}
	}
	expect(g, "stock", own)
	expect(g.With(guard.WithName("refund")), "refund", own)
	expect(none, "guard", slog.Default())
	expect(none.With(guard.WithName("refund")), "refund", slog.Default())
	guard.SetDefault(g)
	defer guard.SetDefault(nil)
	expect(none, "stock", own)
	expect(none.With(guard.WithName("refund")), "refund", own)
}

func TestWith_ARouteKnowsItsTimes(t *testing.T) {
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(time.Second), guard.WithMaxHold(time.Hour),
		guard.WithMinHold(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(t.Context()) }()
	var none *guard.Guard
	if none.MinHold() != 0 || none.MaxHold() != time.Minute || none.With(guard.WithMaxHold(0)).MaxHold() != 0 {
		t.Error("without a default guard the times are not the defaults")
	}
	guard.SetDefault(g)
	defer guard.SetDefault(nil)
	for _, g := range []*guard.Guard{g, none, g.With(guard.WithName("route"))} {
		if g.MaxWait() != time.Second || g.MaxHold() != time.Hour || g.MinHold() != time.Minute {
			t.Errorf("got %v, %v, %v", g.MaxWait(), g.MaxHold(), g.MinHold())
		}
	}
}

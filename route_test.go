package guard_test

import (
	"log/slog"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestARouteKnowsItsNameAndLogger(t *testing.T) {
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

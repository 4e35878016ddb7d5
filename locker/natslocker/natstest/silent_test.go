package natstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/natslocker"
)

func TestFunctionsRunUnguardedWhileNoServerListens(t *testing.T) {
	s := start(t)
	nc := connect(t, s.ClientURL())
	g, err := guard.New(natslocker.New(nc, bucket(t, nc)), guard.WithFailOpen(), guard.WithMaxWait(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		_ = g.Close(ctx) // without a server it would insist for half a minute
	}()
	leased, bare := 0, 0
	f := func(ctx context.Context) error {
		if _, ok := guard.LeaseFrom(ctx); ok {
			leased++
		} else {
			bare++
		}
		return nil
	}
	if err := g.Do(t.Context(), "k", f); err != nil || leased != 1 {
		t.Fatalf("%d functions had a lease, %v", leased, err)
	}
	s.Shutdown()
	s.WaitForShutdown()
	for end := time.Now().Add(patience); bare == 0 && time.Now().Before(end); {
		err = g.Do(t.Context(), "k", f)
	}
	if bare == 0 {
		t.Errorf("no function ran unguarded: %v", err)
	}
}

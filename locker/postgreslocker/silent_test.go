package postgreslocker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
)

// A transaction of somebody else may lock a row of the table. The server is not
// silent then: it answers all others.
func TestARowThatSomebodyLocksIsNoSilence(t *testing.T) {
	one, other := pair(t)
	holder := testguard.Patient(t, one)
	lease, err := holder.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "BEGIN; SELECT FROM "+tableOf(one)+" FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	g := testguard.Patient(t, other, guard.WithFailOpen(), guard.WithMaxWait(100*time.Millisecond))
	ctx, stop := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() { // the server answers these
		defer close(asked)
		for ctx.Err() == nil {
			_, _ = g.Inspect(ctx, "another")
		}
	}()
	for range 3 {
		err := g.Do(t.Context(), "k", func(context.Context) error { return nil })
		if err == nil || guard.Ran(err) {
			t.Errorf("the function ran while somebody holds the key: %v", err)
		}
	}
	stop()
	<-asked
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil && !errors.Is(err, guard.ErrUnavailable) {
		t.Error(err)
	}
}

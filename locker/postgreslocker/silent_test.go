package postgreslocker_test

import (
	"context"
	"errors"
	"sync/atomic"
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
	var answers atomic.Int64
	go func() { // the server answers these
		defer close(asked)
		for ctx.Err() == nil {
			if _, err := g.Inspect(ctx, "another"); err == nil {
				answers.Add(1)
			}
		}
	}()
	for range 3 {
		before := answers.Load()
		err := g.Do(t.Context(), "k", func(context.Context) error { return nil })
		stood := answers.Load() == before // the machine, and the server with it
		if !stood && (err == nil || guard.Ran(err)) {
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

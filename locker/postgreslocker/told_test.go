package postgreslocker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// tracer counts the requests about a table or a message.
type tracer struct {
	table string
	n     atomic.Int64
}

func (r *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, r.table) || strings.Contains(q.SQL, "pg_notify") {
		r.n.Add(1)
	}
	return ctx
}
func (*tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.n.Add(1)
	return ctx
}
func (*tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// heir is a Waker that passes on what it is granted.
type heir struct {
	silent

	granted chan locker.Offer
}

func (h heir) Granted(_, _ string, o locker.Offer) { h.granted <- o }

// Planted: the message is sent when the hand-over is answered, by a request of
// its own.
func TestAHandOverAndItsMessageAreOneRequest(t *testing.T) {
	t.Parallel()
	_, b := pair(t)
	config, err := pgxpool.ParseConfig(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	requests := &tracer{table: tableOf(b)}
	config.ConnConfig.Tracer = requests
	traced, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	a := postgreslocker.New(traced, postgreslocker.WithTable(tableOf(b)))
	owner, waiter := told{wanted: make(chan string, 10)}, heir{granted: make(chan locker.Offer, 10)}
	open(t, a, owner)
	open(t, b, waiter)
	c := claim("k")
	if x := acquire(t, a, c, locker.Try{}); !x.Acquired {
		t.Fatalf("%+v", x)
	}
	acquire(t, b, claim("other"), locker.Try{})
	testguard.Eventually(t, "both hear", func() bool { return a.Hears() && b.Hears() })
	if x := acquire(t, b, claim("k"), locker.Try{Wait: true}); !x.Queued {
		t.Fatalf("%+v, want it queued", x)
	}
	select {
	case <-owner.wanted:
	case <-time.After(testguard.Patience):
		t.Fatal("the owner does not learn that somebody waits")
	}
	before := requests.n.Load()
	if r, err := a.Release(t.Context(), c, locker.End{}); err != nil || !r.Handed {
		t.Fatalf("%+v, %v", r, err)
	}
	select {
	case o := <-waiter.granted:
		if o.Waiting != 0 {
			t.Errorf("%+v", o)
		}
	case <-time.After(testguard.Patience):
		t.Fatal("the heir is not told")
	}
	if n := requests.n.Load() - before; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

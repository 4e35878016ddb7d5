package postgreslocker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// counter counts the requests that read or write rows.
type counter struct{ calls atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, `"of_once_calls"`) {
		c.calls.Add(1)
	}
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) TraceBatchStart(ctx context.Context, conn *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	return c.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: b.Batch.QueuedQueries[0].SQL})
}

func (*counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestACallOfOnceTakesFewRequests(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var count counter
	config.ConnConfig.Tracer = &count
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	l := postgreslocker.New(p, postgreslocker.WithTable("of_once_calls"))
	if err := l.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	count.calls.Store(0)
	g, err := guard.New(l,
		guard.WithTTL(time.Minute), guard.WithMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(t.Context())) }()
	for what, c := range map[string]struct {
		g                   *guard.Guard
		wantFirst, wantNext int64
	}{
		"once":         {g, 2, 1},
		"at most once": {g.With(guard.WithAtMostOnce()), 3, 1},
	} {
		calm(t, func(key string) error {
			for _, want := range []int64{c.wantFirst, c.wantNext} {
				before := count.calls.Load()
				got, err := guard.Once(t.Context(), c.g, key, time.Hour, result("r"))
				if err != nil || got != "r" {
					return fmt.Errorf("%s: %q, %w", what, got, err)
				}
				if n := count.calls.Load() - before; n != want {
					return fmt.Errorf("%w: %s takes %d requests, want %d", errNotCalm, what, n, want)
				}
			}
			return nil
		})
	}
}

func result(r string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return r, nil }
}

var errNotCalm = errors.New("it may have been a slow machine")

// calm calls f for a new key until it succeeds. On a busy machine a request may
// have no answer in time, which costs a result or another request.
func calm(t *testing.T, f func(key string) error) {
	t.Helper()
	var err error
	for i := range 10 {
		err = f(fmt.Sprint("k", i))
		if err == nil {
			return
		}
		if !errors.Is(err, errNotCalm) &&
			!errors.Is(err, guard.ErrNotRecorded) && !errors.Is(err, guard.ErrLeaseLost) &&
			!errors.Is(err, guard.ErrUnavailable) {
			break
		}
		t.Log(err)
	}
	t.Fatal(err)
}

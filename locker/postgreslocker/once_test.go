package postgreslocker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// counter counts the requests that are calls of the function in schema.sql.
type counter struct{ calls atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "_do_") {
		c.calls.Add(1)
	}
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

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
	straight, _ := pair(t)
	g, err := guard.New(postgreslocker.New(p, postgreslocker.WithTable(tableOf(straight))), guard.WithTTL(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(t.Context())) }()
	for _, c := range []struct {
		what string
		g    *guard.Guard
		key  string
		want int64
	}{
		{"a first call", g, "k", 2},
		{"a replay", g, "k", 1},
		{"a first call at most once", g.With(guard.WithAtMostOnce()), "other", 3},
	} {
		before := count.calls.Load()
		got, err := guard.Once(t.Context(), c.g, c.key, time.Hour, func(context.Context) (string, error) { return "r", nil })
		if err != nil || got != "r" {
			t.Fatalf("%s: %q, %v", c.what, got, err)
		}
		if n := count.calls.Load() - before; n != c.want {
			t.Errorf("%s takes %d requests, want %d", c.what, n, c.want)
		}
	}
}

func TestCallersOfTwoProcessesGetOneResult(t *testing.T) {
	t.Parallel()
	gs := guards(t)
	var runs atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			got, err := guard.Once(t.Context(), gs[i%2], "k", time.Hour, func(context.Context) (int64, error) {
				return runs.Add(1), nil
			})
			if err != nil || got != 1 {
				t.Errorf("%d, %v, want the result of the first run", got, err)
			}
		})
	}
	all.Wait()
	found, err := gs[1].Forget(t.Context(), "k")
	if err != nil || !found {
		t.Errorf("Forget: %v, %v", found, err)
	}
}

// A row of a lease is swept earlier than a record may end.
func TestARecordOutlivesTheRowOfItsKey(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	open(t, a, silent{})
	open(t, b, silent{})
	c := claim("k")
	c.Recall = true
	acquire(t, a, c, locker.Try{})
	if _, err := a.Keep(t.Context(), c, nil, locker.Record{Value: "one", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool(t).Exec(t.Context(), "DELETE FROM "+tableOf(a)); err != nil {
		t.Fatal(err)
	}
	d := claim("k")
	d.Recall = true
	if x := acquire(t, b, d, locker.Try{Wait: true}); x.Record != "one" || x.Acquired || x.Queued {
		t.Errorf("%+v, want the record alone", x)
	}
	s, err := b.Inspect(t.Context(), "k")
	if err != nil || s.Key != "k" || s.Held || s.Record.Size != 3 || s.Record.Remaining <= 0 {
		t.Errorf("Inspect: %+v, %v, want the record", s, err)
	}
	if found, err := b.Forget(t.Context(), "k"); !found || err != nil {
		t.Errorf("Forget: %v, %v, want true", found, err)
	}
	if s, err := b.Inspect(t.Context(), "k"); err != nil || s.Record != (locker.RecordState{}) {
		t.Errorf("Inspect after Forget: %+v, %v, want no record", s, err)
	}
}

func TestAFunctionThatBeganRunsOnce(t *testing.T) {
	t.Parallel()
	gs := guards(t)
	errCard := errors.New("no answer of the bank")
	for i, want := range []error{errCard, guard.ErrInterrupted, guard.ErrInterrupted} {
		_, err := guard.Once(t.Context(), gs[i%2].With(guard.WithAtMostOnce()), "k", time.Hour,
			func(context.Context) (int, error) { return 0, errCard })
		if !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
}

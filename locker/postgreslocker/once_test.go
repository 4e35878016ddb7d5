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
	g, err := guard.New(postgreslocker.New(p, postgreslocker.WithTable(tableOf(straight))),
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

func TestTheRowsOfEndedRecordsAreDeleted(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	open(t, a, silent{})
	p := pool(t)
	if _, err := p.Exec(t.Context(), "INSERT INTO "+tableOf(a)+`_record (key, owner, mark, ends, value)
		SELECT n::text::bytea, '', false, CASE WHEN n > 2 THEN 1 ELSE 4e18 END, 'r'
		FROM generate_series(1, 2500) AS n`); err != nil {
		t.Fatal(err)
	}
	a.SweepRecords()
	var left int
	err := p.QueryRow(t.Context(), "SELECT count(*) FROM "+tableOf(a)+"_record").Scan(&left)
	if err != nil || left != 2 {
		t.Errorf("%d rows, %v, want those of the 2 records that have not ended", left, err)
	}
}

func TestALateForgetLeavesALaterRecord(t *testing.T) {
	t.Parallel()
	_, l := pair(t)
	g, err := guard.New(l, guard.WithTTL(time.Minute), guard.WithMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(t.Context())) }()
	once := func(want string) {
		t.Helper()
		if got, err := guard.Once(t.Context(), g, "k", time.Hour, result(want)); got != want || err != nil {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	once("first")
	first, _, err := l.ForgetOf(t.Context(), "k", "")
	if len(first) != locker.OwnerLen || err != nil {
		t.Fatalf("the owner of the record: %q, %v", first, err)
	}
	if forgot, err := g.Forget(t.Context(), "k"); !forgot || err != nil {
		t.Fatalf("Forget: %t, %v", forgot, err)
	}
	once("second")
	if _, forgot, err := l.ForgetOf(t.Context(), "k", first); forgot || err != nil {
		t.Errorf("the late Forget: %t, %v, want that it forgets nothing", forgot, err)
	}
	if got, err := guard.Once(t.Context(), g, "k", time.Hour, result("third")); got != "second" || err != nil {
		t.Errorf("got %q, %v, want the second result", got, err)
	}
}

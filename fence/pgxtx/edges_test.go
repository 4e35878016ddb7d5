package pgxtx_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/pgxtx"
)

// modes are the ways in which pgx sends statements. Poolers need some of them.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// single returns c on a pool with one connection, so whatever needs a second
// one stops for ever.
func (c till) single(change func(*pgxpool.Config)) till {
	c.Helper()
	config, err := pgxpool.ParseConfig(server.URL)
	if err != nil {
		c.Fatal(err)
	}
	config.MaxConns = 1
	change(config)
	if c.pool, err = pgxpool.NewWithConfig(c.Context(), config); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(c.pool.Close)
	return c
}

func (c till) newFences() *pgxtx.Fences {
	c.Helper()
	fences, err := pgxtx.NewFences(fmt.Sprintf("fences_%d", tables.Add(1)))
	if err != nil {
		c.Fatal(err)
	}
	c.exec(fences.Schema())
	return fences
}

func TestOneConnectionIsEnoughInEveryMode(t *testing.T) {
	for _, mode := range modes {
		c := newTill(t).single(func(config *pgxpool.Config) { config.ConnConfig.DefaultQueryExecMode = mode })
		fences, refused := c.newFences(), guard.Final("refused", errors.New("\x00\xff 'no'\\"))
		check := func(ctx context.Context, tx pgx.Tx) error { return fences.Check(ctx, tx, "k'\\", 7) }
		for range 2 {
			if got, err := c.pay(t.Context(), "k'\\", check); err != nil || got.Key != "k'\\" {
				t.Errorf("%v: %v, %v", mode, got, err)
			}
			_, err := c.pay(t.Context(), "final", func(context.Context, pgx.Tx) error { return refused })
			if final := (*guard.FinalError)(nil); !errors.As(err, &final) || final.Code != "refused" {
				t.Errorf("%v: %v", mode, err)
			}
		}
		c.expect(mode.String(), "k'\\", 1)
		c.expect(mode.String(), "final", 0)
		err := pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
			return fences.Check(t.Context(), tx, "k'\\", 6)
		})
		if !errors.Is(err, fence.ErrLateWrite) {
			t.Errorf("%v: a late write: %v", mode, err)
		}
	}
}

// A function may leave a transaction within its own, or answers that it has not
// read. Then all is committed, or nothing.
func TestWhatAFunctionLeavesOpen(t *testing.T) {
	c := newTill(t).single(func(*pgxpool.Config) {})
	inner := func(end func(pgx.Tx, context.Context) error) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			save, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			return errors.Join(c.charge(ctx, save, "inner"), end(save, ctx))
		}
	}
	open := func(pgx.Tx, context.Context) error { return nil }
	for _, row := range []struct {
		key     string
		then    func(ctx context.Context, tx pgx.Tx) error
		fails   bool
		charges int // of inner, after the call
	}{
		{"a savepoint that was rolled back", inner(pgx.Tx.Rollback), false, 0},
		{"a savepoint", inner(pgx.Tx.Commit), false, 1},
		{"an open savepoint", inner(open), false, 2},
		{"a batch that nobody has read", func(ctx context.Context, tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue("INSERT INTO " + c.name + "_charges (name) VALUES ('inner')")
			tx.SendBatch(ctx, batch)
			return nil
		}, true, 2},
		{"rows that nobody has read", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "SELECT generate_series(1, 100000)")
			return err
		}, true, 2},
	} {
		if _, err := c.pay(t.Context(), row.key, row.then); (err != nil) != row.fails {
			t.Errorf("%s: %v", row.key, err)
		}
		c.expect(row.key+": inside", "inner", row.charges)
		want := 1
		if row.fails {
			want = 0
		}
		c.expect(row.key, row.key, want)
		if _, err := c.pay(t.Context(), row.key, nil); err != nil {
			t.Errorf("%s: then %v", row.key, err)
		}
		c.expect(row.key+", and again", row.key, 1)
	}
}

// sqlState returns the code of an error of the server, or "".
func sqlState(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Where transactions are serialized, a check that loses is told apart from a
// late write: the same turn may try again.
func TestASerializationFailureIsNoLateWrite(t *testing.T) {
	c := newTill(t)
	fences := c.newFences()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		key := string(level)
		begin := func() pgx.Tx {
			tx, err := c.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil { // takes the snapshot
				t.Fatal(err)
			}
			return tx
		}
		late, first := begin(), begin()
		if err := errors.Join(fences.Check(t.Context(), first, key, 8), first.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		err := fences.Check(t.Context(), late, key, 9)
		if sqlState(err) != "40001" || errors.Is(err, fence.ErrLateWrite) {
			t.Errorf("%s: %v", level, err)
		}
		_ = late.Rollback(t.Context())
		again := begin()
		if err := fences.Check(t.Context(), again, key, 7); !errors.Is(err, fence.ErrLateWrite) {
			t.Errorf("%s: a late write: %v", level, err)
		}
		_ = again.Rollback(t.Context())
	}
}

// Two calls that nobody excludes, where the second one cannot be serialized.
func TestTheResultOfAnotherIsTakenAfterASerializationFailure(t *testing.T) {
	c := newTill(t)
	serial := c.single(func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	got, err := serial.pay(t.Context(), "k", func(ctx context.Context, _ pgx.Tx) error {
		_, err := c.pay(ctx, "k", nil)
		return err
	})
	if err != nil || got.By != "first" {
		t.Errorf("%v, %v", got, err)
	}
	c.expect("one of two", "k", 1)
}

// A check that is given up while it waits leaves nothing, and its connection is
// not used again.
func TestACheckEndsWithItsContext(t *testing.T) {
	c := newTill(t)
	fences := c.newFences()
	first, err := c.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(t.Context()) }()
	if err := fences.Check(t.Context(), first, "k", 7); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = pgx.BeginFunc(ctx, c.single(func(*pgxpool.Config) {}).pool, func(tx pgx.Tx) error {
		var all sync.WaitGroup
		all.Go(func() { // ends when the check waits, or has returned
			c.waits(ctx, tx.Conn().PgConn().PID())
			cancel()
		})
		err := fences.Check(ctx, tx, "k", 9)
		cancel()
		all.Wait()
		return err
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, fence.ErrLateWrite) {
		t.Errorf("got %v", err)
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error { return fences.Check(t.Context(), tx, "k", 8) })
	if err != nil {
		t.Errorf("a token that was given up counts: %v", err)
	}
}

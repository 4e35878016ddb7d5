package fencetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A till is a table of results, and one of the charges that they are of.
type till struct {
	*testing.T
	database

	name    string
	results *sqlresult.Table
}

// onTills runs test on each database. The names of the tables have a schema
// where there is one.
func onTills(t *testing.T, test func(c till)) {
	t.Helper()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { test(openTill(t, d)) })
	}
}

func openTill(t *testing.T, d database) till {
	t.Helper()
	schema := map[string]string{"PostgreSQL": "public.", "MariaDB": "guard.", "SQLite": "main."}[d.name]
	name := fmt.Sprintf("results_%d", tables.Add(1))
	results, err := sqlresult.New(d.dialect, schema+name)
	if err != nil {
		t.Fatal(err)
	}
	c := till{t, d, name, results}
	for range 2 { // it may exist
		c.exec(results.Schema())
	}
	text := map[string]string{"PostgreSQL": "TEXT", "MariaDB": "VARBINARY(255)", "SQLite": "TEXT"}[d.name]
	c.exec("CREATE TABLE " + name + "_charges (name " + text + " NOT NULL)")
	t.Cleanup(func() {
		for _, suffix := range []string{"", "_charges"} {
			_, _ = d.db.ExecContext(context.WithoutCancel(t.Context()), "DROP TABLE "+name+suffix)
		}
	})
	return c
}

func (c till) exec(statement string) {
	c.Helper()
	if _, err := c.db.ExecContext(c.Context(), statement); err != nil {
		c.Fatalf("%s: %v", statement, err)
	}
}

// execer is a transaction, or a database without one.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// charge writes a charge, which is not to be there twice.
func (c till) charge(ctx context.Context, on execer, key string) error {
	_, err := on.ExecContext(ctx, "INSERT INTO "+c.name+"_charges (name) VALUES ("+param(c.database, 1)+")", key)
	return err
}

func (c till) charges(key string) (n int) {
	c.Helper()
	query := "SELECT count(*) FROM " + c.name + "_charges WHERE name = " + param(c.database, 1)
	if err := c.db.QueryRowContext(c.Context(), query, key).Scan(&n); err != nil {
		c.Fatal(err)
	}
	return n
}

// guards returns guards on stores of their own, so that they exclude nobody of
// each other, as if each lease were lost.
func (c till) guards(n int) (gs []*guard.Guard) {
	c.Helper()
	for range n {
		g, err := guard.New(memlocker.New(), guard.WithMaxWait(time.Minute))
		if err != nil {
			c.Fatal(err)
		}
		c.Cleanup(func() { _ = g.Close(context.WithoutCancel(c.Context())) })
		gs = append(gs, g)
	}
	return gs
}

type receipt struct{ Key, By string }

// pay is the code under test.
func (c till) pay(g *guard.Guard, key string, ttl time.Duration, by string) (receipt, error) {
	return sqlresult.Once(c.Context(), g, c.db, c.results, key, ttl,
		func(ctx context.Context, tx *sql.Tx) (receipt, error) {
			return receipt{key, by}, c.charge(ctx, tx, key)
		})
}

func TestAResultIsCommittedWithItsEffect(t *testing.T) {
	onTills(t, func(c till) {
		g := c.guards(1)[0]
		declined := errors.New("declined")
		end := error(nil)
		call := func(key string) (receipt, error) {
			return sqlresult.Once(c.Context(), g, c.db, c.results, key, time.Hour,
				func(ctx context.Context, tx *sql.Tx) (receipt, error) {
					return receipt{key, "first"}, errors.Join(c.charge(ctx, tx, key), end)
				})
		}
		longest := strings.Repeat("k", 255)
		for _, key := range []string{"a", "A", "a ", longest} {
			for range 2 {
				if r, err := call(key); err != nil || r != (receipt{key, "first"}) || c.charges(key) != 1 {
					c.Errorf("%q: %v, %v, %d charges", key, r, err, c.charges(key))
				}
			}
		}

		end = declined
		if _, err := call("b"); !errors.Is(err, declined) || c.charges("b") != 0 {
			c.Errorf("an error: %v, %d charges", err, c.charges("b"))
		}
		end = nil
		if _, err := call("b"); err != nil || c.charges("b") != 1 {
			c.Errorf("after an error: %v, %d charges", err, c.charges("b"))
		}

		end = guard.Final("declined", declined)
		for n := range 2 {
			_, err := call("c")
			if !errors.Is(err, &guard.FinalError{Code: "declined"}) || c.charges("c") != 0 {
				c.Errorf("a final error: %v, %d charges", err, c.charges("c"))
			}
			if first := errors.Is(err, declined); first != (n == 0) {
				c.Errorf("call %d: the function ran: %v", n, first)
			}
		}

		if found, err := c.results.Forget(c.Context(), c.db, "c"); err != nil || !found {
			c.Errorf("forgotten: %v, %v", found, err)
		}
		end = nil
		if _, err := call("c"); err != nil || c.charges("c") != 1 {
			c.Errorf("after Forget: %v, %d charges", err, c.charges("c"))
		}
	})
}

// crowd has callers whose leases exclude nobody call for the same keys at once.
// It returns what is wrong.
func crowd(c till, pay func(g *guard.Guard, key, by string) (receipt, error)) (wrong error) {
	const callers, keys = 6, 12
	var mu sync.Mutex // guards what follows
	got := map[string]receipt{}
	var wg sync.WaitGroup
	for i, g := range c.guards(callers) {
		wg.Go(func() {
			for k := range keys {
				key := fmt.Sprint("crowd", k)
				r, err := pay(g, key, strconv.Itoa(i))
				for again(err) {
					r, err = pay(g, key, strconv.Itoa(i))
				}
				mu.Lock()
				if first, ok := got[key]; err != nil || ok && r != first {
					wrong = errors.Join(wrong, fmt.Errorf("%s: %v and %v, %w", key, first, r, err))
				}
				got[key] = r
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for k := range keys {
		if n := c.charges(fmt.Sprint("crowd", k)); n != 1 {
			wrong = errors.Join(wrong, fmt.Errorf("crowd%d: charged %d times", k, n))
		}
	}
	return wrong
}

func TestAnEffectHappensOnceThoughNobodyIsExcluded(t *testing.T) {
	onTills(t, func(c till) {
		err := crowd(c, func(g *guard.Guard, key, by string) (receipt, error) { return c.pay(g, key, time.Hour, by) })
		if err != nil {
			c.Error(err)
		}
	})
}

// A call that another one has overtaken has a result of its own, which is
// rolled back. Nothing of it is left in the result that it returns.
func TestTwoResultsAreNeverMixed(t *testing.T) {
	onTills(t, func(c till) {
		g := c.guards(2)
		pay := func(g *guard.Guard, value map[string]int, during func() error) (map[string]int, error) {
			return sqlresult.Once(c.Context(), g, c.db, c.results, "k", time.Hour,
				func(context.Context, *sql.Tx) (map[string]int, error) { return value, during() })
		}
		overtaken := func() error {
			if c.database.name == "SQLite" { // it has one such transaction at a time, so no call overtakes another
				return nil
			}
			_, err := pay(g[1], map[string]int{"second": 2}, func() error { return nil })
			return err
		}
		first, err := pay(g[0], map[string]int{"first": 1}, overtaken)
		again, bad := pay(g[0], nil, overtaken)
		if err != nil || bad != nil || len(first) != 1 || !maps.Equal(first, again) {
			c.Errorf("got %v, %v, then %v, %v", first, err, again, bad)
		}
	})
}

// The ctx ends, so the final error cannot be kept.
func TestAFinalErrorThatIsNotKeptSaysSo(t *testing.T) {
	onTills(t, func(c till) {
		g := c.guards(1)[0]
		declined := guard.Final("declined", errors.New("declined"))
		ctx, cancel := context.WithCancel(c.Context())
		_, err := sqlresult.Once(ctx, g, c.db, c.results, "f", time.Hour, func(context.Context, *sql.Tx) (int, error) {
			cancel()
			return 0, declined
		})
		if !errors.Is(err, guard.ErrNotRecorded) || !errors.Is(err, declined) {
			c.Errorf("got %v, want ErrNotRecorded beside the error", err)
		}
		if r, err := c.pay(g, "f", time.Hour, "later"); err != nil || r.By != "later" {
			c.Errorf("then %v, %v", r, err)
		}
	})
}

// Expired results are replaced by one of those that meet.
func TestAnExpiredResultIsReplacedOnce(t *testing.T) {
	onTills(t, func(c till) {
		g := c.guards(1)[0]
		for k := range 12 {
			if _, err := c.pay(g, fmt.Sprint("crowd", k), time.Millisecond, "old"); err != nil {
				c.Fatal(err)
			}
		}
		c.exec("DELETE FROM " + c.name + "_charges")
		time.Sleep(20 * time.Millisecond)
		err := crowd(c, func(g *guard.Guard, key, by string) (receipt, error) { return c.pay(g, key, time.Hour, by) })
		if err != nil {
			c.Error(err)
		}
	})
}

// The effect is written outside the transaction, or the result does not last:
// the checks above find it.
func TestAnEffectWithoutItsResultIsFound(t *testing.T) {
	onTills(t, func(c till) {
		outside := func(g *guard.Guard, key, by string) (receipt, error) {
			if err := c.charge(c.Context(), c.db, key); err != nil {
				return receipt{}, err
			}
			return c.pay(g, key, time.Hour, by)
		}
		if crowd(c, outside) == nil {
			c.Error("an effect outside the transaction has passed")
		}
		c.exec("DELETE FROM " + c.name + "_charges")
		c.exec("DELETE FROM " + c.name)
		short := func(g *guard.Guard, key, by string) (receipt, error) {
			defer time.Sleep(5 * time.Millisecond)
			return c.pay(g, key, time.Millisecond, by)
		}
		if crowd(c, short) == nil {
			c.Error("results that do not last have passed")
		}
	})
}

func TestKeepIsPartOfItsTransaction(t *testing.T) {
	onTills(t, func(c till) {
		keep := func(value string, commit bool) error {
			tx, err := c.db.BeginTx(c.Context(), nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			err = c.results.Keep(c.Context(), tx, "k", sqlresult.Record{Value: []byte(value)}, time.Hour)
			if err != nil || !commit {
				return err
			}
			return tx.Commit()
		}
		kept := func() string {
			r, found, err := c.results.Recall(c.Context(), c.db, "k")
			if err != nil || r.Final {
				c.Fatal(r, err)
			}
			if !found {
				return "nothing"
			}
			return string(r.Value)
		}
		if err := keep("a", false); err != nil || kept() != "nothing" {
			c.Errorf("rolled back: %v, %s", err, kept())
		}
		if err := keep("", true); err != nil || kept() != "" {
			c.Errorf("an empty result: %v, %q", err, kept())
		}
		for _, commit := range []bool{true, false} {
			if err := keep("b", commit); !errors.Is(err, sqlresult.ErrKept) || kept() != "" {
				c.Errorf("a second one: %v, %q", err, kept())
			}
		}
	})
}

func TestSweepDeletesWhatIsOver(t *testing.T) {
	onTills(t, func(c till) {
		g := c.guards(1)[0]
		for i := range 7 {
			if _, err := c.pay(g, fmt.Sprint("over", i), time.Millisecond, ""); err != nil {
				c.Fatal(err)
			}
		}
		if _, err := c.pay(g, "lasts", time.Hour, ""); err != nil {
			c.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		for _, want := range []int64{5, 2, 0} {
			if n, err := c.results.Sweep(c.Context(), c.db, 5); err != nil || n != want {
				c.Errorf("%d rows, %v, want %d", n, err, want)
			}
		}
		if _, found, err := c.results.Recall(c.Context(), c.db, "lasts"); err != nil || !found {
			c.Errorf("lasts: %v, %v", found, err)
		}
	})
}

func TestBadInputToResultsLosesNothing(t *testing.T) {
	onTills(t, func(c till) {
		g := c.guards(1)[0]
		for key, ttl := range map[string]time.Duration{"": time.Hour, strings.Repeat("k", 256): time.Hour, "k": 0} {
			want := guard.ErrInvalidKey
			if ttl == 0 {
				want = guard.ErrInvalidOption
			}
			if _, err := c.pay(g, key, ttl, ""); !errors.Is(err, want) || guard.Ran(err) {
				c.Errorf("%.9q for %v: %v", key, ttl, err)
			}
		}
		absent, err := sqlresult.New(c.dialect, "absent")
		if err != nil {
			c.Fatal(err)
		}
		_, err = sqlresult.Once(c.Context(), g, c.db, absent, "k", time.Hour,
			func(context.Context, *sql.Tx) (int, error) { return 0, errors.New("ran") })
		if err == nil || !strings.Contains(err.Error(), "Table.Schema") {
			c.Errorf("without a table: %v", err)
		}
		ended := func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, tx.Rollback() }
		_, err = sqlresult.Once(c.Context(), g, c.db, c.results, "k", time.Hour, ended)
		if !errors.Is(err, sql.ErrTxDone) || !strings.Contains(err.Error(), "has ended the transaction") {
			c.Errorf("a function that has ended its transaction: %v", err)
		}
		unwritable := func(ctx context.Context, tx *sql.Tx) (func(), error) { return nil, c.charge(ctx, tx, "k") }
		if _, err = sqlresult.Once(c.Context(), g, c.db, c.results, "k", time.Hour, unwritable); err == nil {
			c.Error("a function was kept as a result")
		}
		if n := c.charges("k"); n != 0 {
			c.Errorf("%d charges", n)
		}
	})
	if _, err := sqlresult.New(sqlfence.PostgreSQL, "a; b"); !errors.Is(err, guard.ErrInvalidOption) {
		t.Error(err)
	}
}

// lostCommits is a driver whose answers to COMMIT are lost. The COMMITs are
// carried out, or rolled back if unheard is set.
type lostCommits struct {
	driver.Driver

	unheard *atomic.Bool
}

func (d lostCommits) Open(dsn string) (driver.Conn, error) {
	inner, err := d.Driver.Open(dsn)
	return lossyConn{inner, d.unheard}, err
}

type lossyConn struct {
	driver.Conn

	unheard *atomic.Bool
}

func (c lossyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c lossyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c lossyConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return lossyTx{tx, c.unheard}, err
}

type lossyTx struct {
	driver.Tx

	unheard *atomic.Bool
}

func (tx lossyTx) Commit() error {
	if tx.unheard.Load() {
		return errors.Join(io.ErrUnexpectedEOF, tx.Rollback())
	}
	return errors.Join(io.ErrUnexpectedEOF, tx.Tx.Commit())
}

// The result is in the database, and tells that the COMMIT was carried out.
func TestALostAnswerToCommitIsFoundOut(t *testing.T) {
	onTills(t, func(c till) {
		name := fmt.Sprint("lossy", c.name)
		var unheard atomic.Bool
		sql.Register(name, lostCommits{c.db.Driver(), &unheard})
		lossy, err := sql.Open(name, dsns[c.database.name])
		if err != nil {
			c.Fatal(err)
		}
		defer func() { _ = lossy.Close() }()
		sound := c.db
		c.db = lossy
		g := c.guards(1)[0]
		for n := range 3 {
			if r, err := c.pay(g, "k", time.Hour, strconv.Itoa(n)); err != nil || r != (receipt{"k", "0"}) {
				c.Errorf("call %d: %v, %v", n, r, err)
			}
		}
		declined := guard.Final("declined", errors.New("declined"))
		_, err = sqlresult.Once(c.Context(), g, c.db, c.results, "f", time.Hour,
			func(context.Context, *sql.Tx) (int, error) { return 0, declined })
		if !errors.Is(err, &guard.FinalError{Code: "declined"}) {
			c.Errorf("a final error: %v", err)
		}
		unheard.Store(true)
		if r, err := c.pay(g, "u", time.Hour, "0"); !errors.Is(err, guard.ErrNotRecorded) || r != (receipt{"u", "0"}) {
			c.Errorf("a COMMIT that is not carried out: %v, %v", r, err)
		}
		c.db = sound
		if r, err := c.pay(g, "u", time.Hour, "1"); err != nil || r != (receipt{"u", "1"}) {
			c.Errorf("after a COMMIT that was not carried out: %v, %v", r, err)
		}
		if k, u := c.charges("k"), c.charges("u"); k != 1 || u != 1 {
			c.Errorf("%d and %d charges", k, u)
		}
	})
}

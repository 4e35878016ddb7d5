package pgxtx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/pgxtx"
	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/middleware/httpopt"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

var (
	server *sqltest.Server // for all tests, from TestMain
	tables atomic.Int64
)

func TestMain(m *testing.M) {
	var err error
	if server, err = sqltest.StartPostgreSQL(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// till has a table of results, and one of the charges that they are of. Both
// ways of access see the same tables.
type till struct {
	*testing.T

	pool    *pgxpool.Pool
	db      *sql.DB
	name    string
	results *pgxtx.Results
	other   *sqlresult.Table
}

func newTill(t *testing.T) till {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() })
	c := till{T: t, pool: pool, db: db, name: fmt.Sprintf("public.results_%d", tables.Add(1))}
	if c.results, err = pgxtx.NewResults(c.name); err != nil {
		t.Fatal(err)
	}
	if c.other, err = sqlresult.New(sqlresult.PostgreSQL, c.name); err != nil {
		t.Fatal(err)
	}
	c.exec(c.results.Schema())
	c.exec(c.results.Schema()) // it may exist
	c.exec("CREATE TABLE " + c.name + "_charges (name TEXT NOT NULL)")
	return c
}

func (c till) exec(statement string, args ...any) {
	c.Helper()
	if _, err := c.pool.Exec(c.Context(), statement, args...); err != nil {
		c.Fatalf("%s: %v", statement, err)
	}
}

func (c till) charge(ctx context.Context, tx pgx.Tx, key string) error {
	_, err := tx.Exec(ctx, "INSERT INTO "+c.name+"_charges (name) VALUES ($1)", key)
	return err
}

func (c till) expect(what, key string, charges int) {
	c.Helper()
	n := 0
	row := c.pool.QueryRow(c.Context(), "SELECT count(*) FROM "+c.name+"_charges WHERE name = $1", key)
	if err := row.Scan(&n); err != nil || n != charges {
		c.Errorf("%s: %d charges, want %d; %v", what, n, charges, err)
	}
}

// newGuard returns a guard on a store of its own, which excludes no other.
func (c till) newGuard() *guard.Guard {
	c.Helper()
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(time.Minute),
		guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = g.Close(context.WithoutCancel(c.Context())) })
	return g
}

type receipt struct{ Key, By string }

// pay is the code under test. then runs at the end of the function.
func (c till) pay(ctx context.Context, key string, then func(ctx context.Context, tx pgx.Tx) error) (receipt, error) {
	return pgxtx.Once(ctx, c.newGuard(), c.pool, c.results, key, time.Hour,
		func(ctx context.Context, tx pgx.Tx) (receipt, error) {
			if own, found := pgxtx.TxFrom(ctx); !found || own != tx {
				c.Error("TxFrom finds another transaction, or none")
			}
			if _, found := sqlresult.TxFrom(ctx); found {
				c.Error("sqlresult.TxFrom finds a transaction of pgx")
			}
			err := c.charge(ctx, tx, key)
			if then != nil {
				err = errors.Join(err, then(ctx, tx))
			}
			return receipt{key, "first"}, err
		})
}

func TestAResultIsCommittedWithItsEffect(t *testing.T) {
	c := newTill(t)
	for range 2 {
		if r, err := c.pay(t.Context(), "a", nil); err != nil || r != (receipt{"a", "first"}) {
			t.Errorf("got %v, %v", r, err)
		}
	}
	c.expect("twice", "a", 1)

	declined := errors.New("declined")
	_, err := c.pay(t.Context(), "b", func(context.Context, pgx.Tx) error { return declined })
	if !errors.Is(err, declined) {
		t.Errorf("an error: %v", err)
	}
	c.expect("an error", "b", 0)
	final := guard.Final("declined", declined)
	for range 2 {
		_, err := c.pay(t.Context(), "c", func(context.Context, pgx.Tx) error { return final })
		if e := (*guard.FinalError)(nil); !errors.As(err, &e) || e.Code != "declined" {
			t.Errorf("a final error: %v", err)
		}
	}
	c.expect("a final error", "c", 0)
	func() {
		defer func() { _ = recover() }()
		_, _ = c.pay(t.Context(), "p", func(context.Context, pgx.Tx) error { panic("own") })
	}()
	c.expect("a panic", "p", 0)
	if n := c.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still in use", n)
	}
}

// What pgx and database/sql keep is the same table.
func TestBothWaysOfAccessShareResults(t *testing.T) {
	c := newTill(t)
	if _, err := c.pay(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	r, err := sqlresult.Once(t.Context(), c.newGuard(), c.db, c.other, "a", time.Hour,
		func(context.Context, *sql.Tx) (receipt, error) { return receipt{}, errors.New("it runs again") })
	if err != nil || r.By != "first" {
		t.Errorf("database/sql got %v, %v", r, err)
	}
	_, err = sqlresult.Once(t.Context(), c.newGuard(), c.db, c.other, "b", time.Hour,
		func(ctx context.Context, _ *sql.Tx) (receipt, error) {
			if _, found := pgxtx.TxFrom(ctx); found {
				t.Error("TxFrom finds a transaction of database/sql")
			}
			return receipt{"b", "other"}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.pay(t.Context(), "b", nil); err != nil || r.By != "other" {
		t.Errorf("pgx got %v, %v", r, err)
	}
	c.expect("after the other", "b", 0)
}

func TestCallsThatNobodyExcludesAreCommittedOnce(t *testing.T) {
	c := newTill(t)
	for n := range 10 {
		key := fmt.Sprint("crowd", n)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if r, err := c.pay(t.Context(), key, nil); err != nil || r.Key != key {
					t.Errorf("got %v, %v", r, err)
				}
			})
		}
		wg.Wait()
		c.expect(key, key, 1)
	}
}

func pgxRollback(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }

// Nothing is committed after the end of the context, which a lost lease ends.
func TestATransactionThatCannotEndWellIsRolledBack(t *testing.T) {
	c := newTill(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, row := range map[string]struct {
		then func(ctx context.Context, tx pgx.Tx) error
		text string
	}{
		"the context ends": {func(context.Context, pgx.Tx) error {
			cancel()
			return nil
		}, "context canceled"},
		"the function rolls back": {pgxRollback, "has ended the transaction"},
		"the connection ends": {func(ctx context.Context, tx pgx.Tx) error {
			c.exec("SELECT pg_terminate_backend($1)", tx.Conn().PgConn().PID())
			return nil
		}, ""},
		"a statement has failed": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return nil
		}, "25P02"},
	} {
		call := t.Context()
		if name == "the context ends" {
			call = ctx
		}
		if _, err := c.pay(call, name, row.then); err == nil || !strings.Contains(err.Error(), row.text) {
			t.Errorf("%s: %v", name, err)
		}
		c.expect(name, name, 0)
		if _, err := c.pay(t.Context(), name, nil); err != nil {
			t.Errorf("%s: then %v", name, err)
		}
		c.expect(name+", and again", name, 1)
	}
}

// The lease's own context ends just before COMMIT, with all statements sent.
func TestNothingIsCommittedUnderALostLease(t *testing.T) {
	c := newTill(t)
	l := memlocker.New()
	g, err := guard.New(l, guard.WithTTL(3*time.Second), guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(t.Context())) }()
	_, err = pgxtx.Once(t.Context(), g, c.pool, c.results, "k", time.Hour,
		func(ctx context.Context, tx pgx.Tx) (receipt, error) {
			if err := c.charge(ctx, tx, "k"); err != nil {
				return receipt{}, err
			}
			l.Break()
			<-ctx.Done()
			return receipt{}, nil
		})
	if !errors.Is(err, guard.ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	c.expect("a lost lease", "k", 0)
}

// hasty is a pool whose transactions see the context end when the result has
// been inserted, and COMMIT has not been sent.
type hasty struct {
	*pgxpool.Pool
	end func()
}

func (h hasty) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := h.Pool.BeginTx(ctx, o)
	return hastyTx{tx, h.end}, err
}

type hastyTx struct {
	pgx.Tx
	end func()
}

func (h hastyTx) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	done, err := h.Tx.Exec(ctx, statement, args...)
	h.end()
	return done, err
}

func TestNothingIsCommittedAfterTheEndOfTheContext(t *testing.T) {
	c := newTill(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := false
	_, err := pgxtx.Once(ctx, c.newGuard(), hasty{c.pool, cancel}, c.results, "k", time.Hour,
		func(ctx context.Context, tx pgx.Tx) (receipt, error) {
			ran = true
			return receipt{}, ctx.Err()
		})
	if !ran || errors.Is(err, guard.ErrNotRecorded) || !errors.Is(err, context.Canceled) {
		t.Errorf("ran %v, %v, want the end alone: COMMIT was not sent", ran, err)
	}
	if _, err := c.pay(t.Context(), "k", nil); err != nil {
		t.Error(err)
	}
	c.expect("the next call", "k", 1)
}

// A database that says no to COMMIT has kept nothing: a result would be a lie.
// One that goes away in the middle says nothing.
func TestAResultComesWithSilenceAndNeverWithARefusal(t *testing.T) {
	c := newTill(t)
	c.exec("CREATE TABLE " + c.name + "_seats (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	c.exec("INSERT INTO " + c.name + "_seats VALUES (1)")
	c.exec("CREATE FUNCTION " + c.name + "_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " +
		"IF NEW.n = 3 THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); END IF; " +
		"RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")
	c.exec("CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON " + c.name + "_seats DEFERRABLE INITIALLY DEFERRED " +
		"FOR EACH ROW EXECUTE FUNCTION " + c.name + "_f()")
	for _, row := range []struct {
		code, statement string
		unclear         bool
	}{
		{"23505", "INSERT INTO " + c.name + "_seats VALUES (1)", false},
		{"40001", "UPDATE " + c.name + "_seats SET n = 2", false},
		{"57P01", "UPDATE " + c.name + "_seats SET n = 3", true},
	} {
		r, err := c.pay(t.Context(), row.code, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, row.statement)
			return err
		})
		unclear := errors.Is(err, guard.ErrNotRecorded)
		if unclear != row.unclear || unclear != (r.By != "") || sqlState(err) != row.code {
			t.Errorf("%s at COMMIT: %v, %v", row.code, r, err)
		}
		c.expect(row.code, row.code, 0)
		if _, err := c.pay(t.Context(), row.code, nil); err != nil {
			t.Errorf("after %s: %v", row.code, err)
		}
		c.expect("after "+row.code, row.code, 1)
	}
}

func TestForgetAndSweep(t *testing.T) {
	c := newTill(t)
	for _, key := range []string{"a", "b"} {
		if _, err := c.pay(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []bool{true, false} {
		if found, err := c.results.Forget(t.Context(), c.pool, "a"); found != want || err != nil {
			t.Errorf("got %v, %v, want %v", found, err, want)
		}
	}
	c.exec("UPDATE " + c.name + " SET until = now() - INTERVAL '1 second'")
	if n, err := c.results.Sweep(t.Context(), c.pool, 10); n != 1 || err != nil {
		t.Errorf("%d rows swept, %v", n, err)
	}
	c.exec("DROP TABLE " + c.name)
	if _, err := c.results.Sweep(t.Context(), c.pool, 1); err == nil {
		t.Error("an error of the database is lost")
	}
}

func TestATokenThatIsTooLowIsRefused(t *testing.T) {
	c := newTill(t)
	name := fmt.Sprintf("fences_%d", tables.Add(1))
	ours, err := pgxtx.NewFences(name)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := sqlfence.New(sqlfence.PostgreSQL, name)
	if err != nil {
		t.Fatal(err)
	}
	c.exec(ours.Schema())
	pass := func(token uint64, end func(pgx.Tx, context.Context) error) error {
		tx, err := c.pool.Begin(t.Context())
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		if err := ours.Check(t.Context(), tx, "stock", token); err != nil {
			return err
		}
		return end(tx, t.Context())
	}
	for _, row := range []struct {
		token uint64
		end   func(pgx.Tx, context.Context) error
		late  bool
	}{
		{7, pgx.Tx.Commit, false},
		{7, pgx.Tx.Commit, false},
		{6, pgx.Tx.Commit, true},
		{9, pgx.Tx.Rollback, false},
		{8, pgx.Tx.Commit, false},
	} {
		if err := pass(row.token, row.end); errors.Is(err, fence.ErrLateWrite) != row.late || !row.late && err != nil {
			t.Errorf("token %d: %v", row.token, err)
		}
	}
	tx, err := c.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := theirs.Check(t.Context(), tx, "stock", 7); !errors.Is(err, fence.ErrLateWrite) {
		t.Errorf("database/sql does not see the fence of pgx: %v", err)
	}
	if err := pass(0, pgx.Tx.Commit); !errors.Is(err, guard.ErrInvalidOption) {
		t.Errorf("token 0: %v", err)
	}
}

// waits returns when the session waits for another one.
func (c till) waits(ctx context.Context, pid uint32) {
	c.Helper()
	for waits := false; !waits; {
		row := c.pool.QueryRow(ctx, "SELECT cardinality(pg_blocking_pids($1)) > 0", pid)
		if err := row.Scan(&waits); err != nil {
			c.Error(err)
			return
		}
	}
}

// A transaction that checks waits for another one that has checked.
func TestACheckWaitsForTheTransactionBeforeIt(t *testing.T) {
	c := newTill(t)
	fences, err := pgxtx.NewFences(fmt.Sprintf("fences_%d", tables.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	c.exec(fences.Schema())
	first, err := c.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(t.Context()) }()
	if err := fences.Check(t.Context(), first, "k", 9); err != nil {
		t.Fatal(err)
	}
	second, err := c.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Rollback(t.Context()) }()
	late, pid := make(chan error, 1), second.Conn().PgConn().PID()
	go func() { late <- fences.Check(t.Context(), second, "k", 8) }()
	c.waits(t.Context(), pid)
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-late; !errors.Is(err, fence.ErrLateWrite) {
		t.Errorf("got %v", err)
	}
}

func TestARequestIsCommittedWithItsAnswer(t *testing.T) {
	c := newTill(t)
	status := 0
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, found := pgxtx.TxFrom(r.Context())
		if !found {
			t.Error("no transaction")
			return
		}
		if err := c.charge(r.Context(), tx, r.Header.Get("Idempotency-Key")); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "paid")
	})
	send := func(key string) *httptest.ResponseRecorder {
		once := lockmw.Idempotent(c.newGuard(), keyfunc.Static("ann"), time.Hour,
			httpopt.InTransactionOf(pgxtx.OnceIn(c.pool, c.results)))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", strings.NewReader("1"))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		once(pay).ServeHTTP(w, r)
		return w
	}
	long := strings.Repeat("k", 255) // too long for a row together with its scope
	for key, row := range map[string]struct{ status, charges int }{
		"a": {201, 1}, "b": {500, 0}, "c": {429, 0}, "d": {409, 0}, long: {201, 1},
	} {
		status = row.status
		kept := row.charges == 1 || status == http.StatusConflict
		for try := range 2 {
			w := send(key)
			replayed := w.Header().Get("Idempotency-Replayed") != ""
			if w.Code != status || w.Body.String() != "paid" || replayed != (try == 1 && kept) {
				t.Errorf("%.9s, try %d: %d %s, replay %v", key, try, w.Code, w.Body, replayed)
			}
		}
		c.expect(key, key, row.charges)
	}
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	if _, err := pgxtx.NewResults("a b"); !errors.Is(err, guard.ErrInvalidOption) {
		t.Error(err)
	}
	if _, err := pgxtx.NewFences("a;b"); !errors.Is(err, guard.ErrInvalidOption) {
		t.Error(err)
	}
	c := newTill(t)
	never := func(context.Context, pgx.Tx) (int, error) { return 0, errors.New("it runs") }
	for name, call := range map[string]func() (int, error){
		"no database": func() (int, error) {
			return pgxtx.Once(t.Context(), nil, nil, c.results, "k", time.Hour, never)
		},
		"no table": func() (int, error) { return pgxtx.Once(t.Context(), nil, c.pool, nil, "k", time.Hour, never) },
		"no function": func() (int, error) {
			return pgxtx.Once[int](t.Context(), nil, c.pool, c.results, "k", time.Hour, nil)
		},
		"no time": func() (int, error) { return pgxtx.Once(t.Context(), nil, c.pool, c.results, "k", 0, never) },
	} {
		if _, err := call(); !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, construct := range map[string]func(){
		"no database": func() { pgxtx.OnceIn(nil, c.results) }, "no table": func() { pgxtx.OnceIn(c.pool, nil) },
		"no function": func() { httpopt.InTransactionOf(nil) },
	} {
		testguard.Panics(t, name, construct)
	}
}

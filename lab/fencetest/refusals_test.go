package fencetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/middleware/httpopt"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// A refusal is something that a function may write so that the database says no
// to its COMMIT.
type refusal struct {
	name  string
	again bool // the code says that the transaction may succeed if it begins anew
	write func(ctx context.Context, tx *sql.Tx) error
}

// refusals prepares c for what its database refuses at COMMIT.
func (c *till) refusals() []refusal {
	c.Helper()
	write := func(statement string) func(ctx context.Context, tx *sql.Tx) error {
		return func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		}
	}
	switch c.database.name {
	case "PostgreSQL":
		c.exec("CREATE TABLE " + c.name + "_seats (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)")
		c.exec("INSERT INTO " + c.name + "_seats VALUES (1)")
		c.exec("CREATE FUNCTION " + c.name + "_f() RETURNS trigger LANGUAGE plpgsql AS " +
			"$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")
		c.exec("CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON " + c.name + "_seats DEFERRABLE INITIALLY DEFERRED " +
			"FOR EACH ROW EXECUTE FUNCTION " + c.name + "_f()")
		return []refusal{
			{"23505", false, write("INSERT INTO " + c.name + "_seats VALUES (1)")},
			{"40001", true, write("UPDATE " + c.name + "_seats SET n = 2")},
		}
	case "SQLite":
		c.db = c.reopen("sqlite", dsns["SQLite"]+"&_pragma=foreign_keys(1)")
		c.exec("CREATE TABLE " + c.name + "_seats (n INTEGER PRIMARY KEY, " +
			"next INTEGER REFERENCES " + c.name + "_seats DEFERRABLE INITIALLY DEFERRED)")
		return []refusal{{"787", false, write("INSERT INTO " + c.name + "_seats VALUES (1, 2)")}}
	}
	// MariaDB has no constraint that waits for COMMIT. A cluster of them says
	// no.
	said := ""
	name := "refusing" + c.name
	sql.Register(name, refusingCommits{c.db.Driver(), &said})
	c.db = c.reopen(name, dsns["MariaDB"])
	signal := func(state string, number int) func(context.Context, *sql.Tx) error {
		return func(context.Context, *sql.Tx) error {
			said = fmt.Sprintf("SIGNAL SQLSTATE '%s' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'no'", state, number)
			return nil
		}
	}
	return []refusal{
		{"1062", false, signal("23000", 1062)},
		{"1213", true, signal("40001", 1213)},
		{"1180", true, signal("HY000", 1180)},
	}
}

func (c *till) reopen(name, dsn string) *sql.DB {
	c.Helper()
	db, err := sql.Open(name, dsn)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = db.Close() })
	return db
}

// refusingCommits is a driver whose next COMMIT is the statement said, which
// the server answers with an error, and a rollback.
type refusingCommits struct {
	driver.Driver

	said *string
}

func (d refusingCommits) Open(dsn string) (driver.Conn, error) {
	inner, err := d.Driver.Open(dsn)
	return refusingConn{lossyConn{inner, nil}, d.said}, err
}

type refusingConn struct {
	lossyConn

	said *string
}

func (c refusingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return refusingTx{tx, c}, err
}

type refusingTx struct {
	driver.Tx

	conn refusingConn
}

func (tx refusingTx) Commit() error {
	statement := *tx.conn.said
	if *tx.conn.said = ""; statement == "" {
		return tx.Tx.Commit()
	}
	_, err := tx.conn.ExecContext(context.Background(), statement, nil)
	if bad := tx.Rollback(); bad != nil {
		return bad
	}
	return err
}

// A database that says no to COMMIT has kept nothing: a result would be a lie.
func TestAResultNeverComesWithARefusal(t *testing.T) {
	onTills(t, func(c till) {
		g := c.guards(1)[0]
		for _, row := range c.refusals() {
			pay := func(write func(context.Context, *sql.Tx) error) (receipt, error) {
				return sqlresult.Once(c.Context(), g, c.db, c.results, row.name, time.Hour,
					func(ctx context.Context, tx *sql.Tx) (receipt, error) {
						return receipt{row.name, "first"}, errors.Join(c.charge(ctx, tx, row.name), write(ctx, tx))
					})
			}
			r, err := pay(row.write)
			if r != (receipt{}) || err == nil || errors.Is(err, guard.ErrNotRecorded) ||
				!strings.Contains(err.Error(), row.name) || !guard.Ran(err) || c.charges(row.name) != 0 {
				c.Errorf("%s at COMMIT: %v, %v, %d charges", row.name, r, err, c.charges(row.name))
			}
			r, err = pay(func(context.Context, *sql.Tx) error { return nil })
			if err != nil || r.By != "first" || c.charges(row.name) != 1 {
				c.Errorf("after %s: %v, %v, %d charges", row.name, r, err, c.charges(row.name))
			}
		}
	})
}

// till.route serves handler behind InTransaction, and tells what its answers
// were, how often it ran and what was logged as an error.
func (c *till) route(handler func(w http.ResponseWriter, r *http.Request, tx *sql.Tx)) (
	send func(key string) *httptest.ResponseRecorder, runs *int, log *strings.Builder,
) {
	c.Helper()
	runs, log = new(int), new(strings.Builder)
	g, err := guard.New(memlocker.New(), guard.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = g.Close(context.WithoutCancel(c.Context())) })
	once := lockmw.Idempotent(g, keyfunc.Static("ann"), time.Hour, httpopt.InTransaction(c.db, c.results))
	served := once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*runs++
		tx, _ := sqlresult.TxFrom(r.Context())
		handler(w, r, tx)
	}))
	return func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(c.Context(), http.MethodPost, "/pay", strings.NewReader("1"))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r)
		return w
	}, runs, log
}

// Of what may pass the client is told to ask again, and of the rest it is not.
func TestARequestThatCommitRefusesIsAnsweredAsTheCodeSays(t *testing.T) {
	onTills(t, func(c till) {
		for _, row := range c.refusals() {
			send, runs, log := c.route(func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
				if err := errors.Join(c.charge(r.Context(), tx, row.name), row.write(r.Context(), tx)); err != nil {
					c.Error(err)
				}
				_, _ = io.WriteString(w, "paid")
			})
			status := http.StatusInternalServerError
			if row.again {
				status = http.StatusServiceUnavailable
			}
			a := send(row.name)
			if a.Code != status || (a.Header().Get("Retry-After") != "") != row.again ||
				strings.Contains(a.Body.String(), "paid") {
				c.Errorf("%s: %d %s, %v", row.name, a.Code, a.Body, a.Header())
			}
			if told := strings.Contains(log.String(), "the database refused a request's work"); told == row.again {
				c.Errorf("%s: log %s", row.name, log)
			}
			if *runs != 1 || c.charges(row.name) != 0 {
				c.Errorf("%s: %d runs, %d charges", row.name, *runs, c.charges(row.name))
			}
		}
	})
}

// A handler that answers 400 and above has not done the work: what it has
// written goes, and the answer stays. In PostgreSQL a statement that has failed
// ends the transaction as well.
func TestAnAnswerThatSaysNoRollsBackAndIsKept(t *testing.T) {
	onTills(t, func(c till) {
		c.exec("CREATE UNIQUE INDEX " + c.name + "_u ON " + c.name + "_charges (name)")
		if err := c.charge(c.Context(), c.db, "taken"); err != nil {
			c.Fatal(err)
		}
		for _, status := range []int{400, 409, 422} {
			key := fmt.Sprint("no", status)
			send, runs, log := c.route(func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
				if err := c.charge(r.Context(), tx, key); err != nil {
					c.Error(err)
				}
				if err := c.charge(r.Context(), tx, "taken"); err == nil {
					c.Error("the name is not taken")
				}
				w.Header().Set("Location", "/x")
				http.Error(w, "name is \xff taken", status)
			})
			for try := range 3 {
				a := send(key)
				replayed := a.Header().Get("Idempotency-Replayed") != ""
				if a.Code != status || a.Body.String() != "name is \xff taken\n" ||
					a.Header().Get("Location") != "/x" || replayed != (try > 0) {
					c.Errorf("%d, try %d: %d %q, %v; log %s", status, try, a.Code, a.Body, a.Header(), log)
				}
			}
			if *runs != 1 || c.charges(key) != 0 {
				c.Errorf("%d: %d runs, %d charges", status, *runs, c.charges(key))
			}
		}
	})
}

// A part of the work is kept by a savepoint around the rest, and an answer
// below 400.
func TestASavepointKeepsAPart(t *testing.T) {
	onTills(t, func(c till) {
		c.exec("CREATE UNIQUE INDEX " + c.name + "_u ON " + c.name + "_charges (name)")
		send, runs, _ := c.route(func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
			run := func(statement string) {
				if _, err := tx.ExecContext(r.Context(), statement); err != nil {
					c.Errorf("%s: %v", statement, err)
				}
			}
			if err := c.charge(r.Context(), tx, "part"); err != nil {
				c.Error(err)
			}
			run("SAVEPOINT bonus")
			if err := c.charge(r.Context(), tx, "part"); err == nil {
				c.Error("the name is not taken")
			}
			run("ROLLBACK TO SAVEPOINT bonus")
			w.WriteHeader(http.StatusCreated)
		})
		for range 2 {
			if a := send("k"); a.Code != http.StatusCreated {
				c.Errorf("%d %s", a.Code, a.Body)
			}
		}
		if *runs != 1 || c.charges("part") != 1 {
			c.Errorf("%d runs, %d charges", *runs, c.charges("part"))
		}
	})
}

// A handler that takes no notice of a failed statement has not done what it
// says, in PostgreSQL.
func TestASuccessInAnAbortedTransactionIsNone(t *testing.T) {
	c := openTill(t, databases[0])
	send, _, log := c.route(func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		if _, err := tx.ExecContext(r.Context(), "SELECT 1/0"); err == nil {
			c.Error("no error")
		}
		_, _ = io.WriteString(w, "paid")
	})
	a := send("k")
	if a.Code != http.StatusInternalServerError || a.Header().Get("Retry-After") != "" ||
		!strings.Contains(log.String(), "25P02") {
		c.Errorf("%d %s, %v; log %s", a.Code, a.Body, a.Header(), log)
	}
}

// MariaDB rolls a transaction back at a deadlock, and SQLite at a statement
// that says so. Both carry out what comes after it.
func (c *till) breaks(ctx context.Context, tx *sql.Tx) error {
	c.Helper()
	if c.database.name == "SQLite" {
		_, err := tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO "+c.name+"_rows VALUES ('mine')")
		return err
	}
	change := func(on execer, row string) error {
		_, err := on.ExecContext(ctx, "UPDATE "+c.name+"_rows SET n = n + 1 WHERE name = ?", row)
		return err
	}
	other, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	// The transaction that has changed less is the one that is rolled back.
	_, err = other.ExecContext(ctx, "INSERT INTO "+c.name+"_rows (name) SELECT seq FROM seq_1_to_1000")
	if err = errors.Join(err, change(other, "other"), change(tx, "mine")); err != nil {
		return errors.Join(err, other.Rollback())
	}
	done := make(chan error)
	go func() { done <- errors.Join(change(other, "mine"), other.Rollback()) }()
	err = change(tx, "other")
	if bad := <-done; bad != nil {
		c.Error("the other transaction:", bad)
	}
	return err
}

// A result never comes of a transaction that the database has ended before its
// function was over.
func TestADeadlockThatAFunctionIgnoresLeavesNoResult(t *testing.T) {
	onTills(t, func(c till) {
		switch c.database.name {
		case "PostgreSQL": // TestASuccessInAnAbortedTransactionIsNone
			return
		case "SQLite":
			c.exec("CREATE TABLE " + c.name + "_rows (name TEXT PRIMARY KEY)")
			c.exec("INSERT INTO " + c.name + "_rows VALUES ('mine')")
		default:
			c.exec("CREATE TABLE " + c.name + "_rows (name VARBINARY(255) PRIMARY KEY, n INT NOT NULL DEFAULT 0)")
			c.exec("INSERT INTO " + c.name + "_rows (name) VALUES ('mine'), ('other')")
		}
		g := c.guards(1)[0]
		pay := func(after func(ctx context.Context, tx *sql.Tx)) (receipt, error) {
			return sqlresult.Once(c.Context(), g, c.db, c.results, "k", time.Hour,
				func(ctx context.Context, tx *sql.Tx) (receipt, error) {
					err := c.charge(ctx, tx, "k")
					after(ctx, tx)
					return receipt{"k", "first"}, err
				})
		}
		r, err := pay(func(ctx context.Context, tx *sql.Tx) {
			if err := c.breaks(ctx, tx); err == nil {
				c.Error("no deadlock")
			}
		})
		said := err != nil && strings.Contains(err.Error(), "has ended the transaction inside the function")
		if r != (receipt{}) || !said || errors.Is(err, guard.ErrNotRecorded) || c.charges("k") != 0 {
			c.Errorf("%v, %v, %d charges", r, err, c.charges("k"))
		}
		r, err = pay(func(context.Context, *sql.Tx) {})
		if err != nil || r.By != "first" || c.charges("k") != 1 {
			c.Errorf("again: %v, %v, %d charges", r, err, c.charges("k"))
		}
	})
}

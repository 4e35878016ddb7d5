package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/sqlfence"
)

// This file has the code of docs/choosing.md that needs a database. It is the
// same text, so it runs on PostgreSQL. statements_test.go runs its statements
// on the other databases too.

var errSoldOut = errors.New("sold out")

func sellAtomically(ctx context.Context, db *sql.DB, sku string) error {
	res, err := db.ExecContext(ctx, `UPDATE stock SET n = n - 1 WHERE sku = $1 AND n > 0`, sku)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errSoldOut)
	}
	return nil
}

func createAccount(ctx context.Context, db *sql.DB, email string) error {
	// PostgreSQL, SQLite
	_, err := db.ExecContext(ctx, `INSERT INTO accounts (email) VALUES ($1) ON CONFLICT (email) DO NOTHING`, email)
	return err
}

func payOnce(ctx context.Context, db *sql.DB, requestID string, pay func(context.Context, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	// PostgreSQL, SQLite
	res, err := tx.ExecContext(ctx, `INSERT INTO requests (id) VALUES ($1) ON CONFLICT DO NOTHING`, requestID)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err // it has been done: answer as then
	}
	if err := pay(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

func takeJob(ctx context.Context, tx *sql.Tx) (id int64, payload []byte, err error) {
	// PostgreSQL, MySQL, MariaDB
	row := tx.QueryRowContext(ctx, `SELECT id, payload FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`)
	err = row.Scan(&id, &payload)
	return id, payload, err
}

func makeFences(ctx context.Context, db *sql.DB, use func(*sqlfence.Table) error) error {
	fences, err := sqlfence.New(sqlfence.PostgreSQL, "fences") // at start-up; sqlfence.MySQL is MariaDB's too
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, fences.Schema()); err != nil { // or in your migrations
		return err
	}
	return use(fences)
}

func writeFenced(ctx context.Context, db *sql.DB, fences *sqlfence.Table, sku string, left int, token uint64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := fences.Check(ctx, tx, guard.Key("stock", sku), token); err != nil {
		return err // fence.ErrLateWrite: somebody else has had a turn since
	}
	if _, err := tx.ExecContext(ctx, `UPDATE stock SET n = $1 WHERE sku = $2`, left, sku); err != nil {
		return err
	}
	return tx.Commit()
}

func writeColumn(ctx context.Context, db *sql.DB, sku string, token uint64) (sql.Result, error) {
	res, err := db.ExecContext(ctx,
		`UPDATE stock SET n = n - 1, fence = $1 WHERE sku = $2 AND fence <= $1 AND n > 0`, int64(token), sku)
	return res, err
}

// onPostgreSQL returns a database with the tables of the documents.
func onPostgreSQL(t *testing.T) *sql.DB {
	t.Helper()
	i := slices.IndexFunc(databases, func(d database) bool { return d.dialect == sqlfence.PostgreSQL })
	makeTables(t, databases[i].db)
	return databases[i].db
}

func TestAnAtomicUpdateSellsWhatIsThere(t *testing.T) {
	db := onPostgreSQL(t)
	for range stocked {
		if err := sellAtomically(t.Context(), db, "lamp"); err != nil {
			t.Fatal(err)
		}
	}
	if err := sellAtomically(t.Context(), db, "lamp"); !errors.Is(err, errSoldOut) {
		t.Errorf("got %v, want sold out", err)
	}
}

func TestAConstraintLetsOneAccountBe(t *testing.T) {
	db := onPostgreSQL(t)
	for range 2 {
		if err := createAccount(t.Context(), db, "new@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM accounts WHERE email = 'new@example.com'").Scan(&n)
	if n != 1 || err != nil {
		t.Errorf("%d accounts: %v", n, err)
	}
}

func TestAnIdempotencyKeyPaysOnce(t *testing.T) {
	db, paid := onPostgreSQL(t), 0
	declined := errors.New("declined")
	for _, answer := range []error{declined, nil, nil} { // one that failed may come again
		err := payOnce(t.Context(), db, "r1", func(context.Context, *sql.Tx) error {
			paid++
			return answer
		})
		if !errors.Is(err, answer) {
			t.Errorf("got %v, want %v", err, answer)
		}
	}
	if paid != 2 {
		t.Errorf("%d tries to pay, want the one that was declined and the one that was not", paid)
	}
}

func TestTwoWorkersTakeTwoJobs(t *testing.T) {
	db := onPostgreSQL(t)
	seen := map[int64]bool{}
	for range 2 {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		id, _, err := takeJob(t.Context(), tx)
		if err != nil {
			t.Fatal(err)
		}
		seen[id] = true
	}
	if len(seen) != 2 {
		t.Errorf("taken: %v", seen)
	}
}

func TestTheFenceOfTheDocumentsRefusesALateWrite(t *testing.T) {
	db := onPostgreSQL(t)
	err := makeFences(t.Context(), db, func(fences *sqlfence.Table) error {
		if err := writeFenced(t.Context(), db, fences, "lamp", 1, 9); err != nil {
			return err
		}
		return writeFenced(t.Context(), db, fences, "lamp", 2, 8)
	})
	if !errors.Is(err, fence.ErrLateWrite) {
		t.Errorf("got %v, want a late write", err)
	}
}

func TestTheColumnOfTheDocumentsRefusesALateWrite(t *testing.T) {
	db := onPostgreSQL(t)
	for _, c := range []struct {
		token uint64
		rows  int64
	}{{9, 1}, {8, 0}} {
		res, err := writeColumn(t.Context(), db, "lamp", c.token)
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := res.RowsAffected(); rows != c.rows || err != nil {
			t.Errorf("token %d: %d rows, want %d: %v", c.token, rows, c.rows, err)
		}
	}
}

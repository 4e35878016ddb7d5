package show

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/fence/sqlfence"
)

// sqlBook is a book in an SQL database: three tables of its own run.
type sqlBook struct {
	db     *sql.DB
	spoken *strings.Replacer // puts the names of the tables into statements
	dollar bool              // parameters are $1, $2 ...
	fences *sqlfence.Table
}

// newSQLBook returns the book of a run, whose name starts the names of its
// tables.
func newSQLBook(db *sql.DB, d sqlfence.Dialect, run string) (*sqlBook, error) {
	prefix := strings.ReplaceAll(run, ":", "_")
	fences, err := sqlfence.New(d, prefix+"_fences")
	if err != nil {
		return nil, err
	}
	spoken := strings.NewReplacer("STOCK", prefix+"_stock", "ORDERS", prefix+"_orders", "FENCES", prefix+"_fences")
	return &sqlBook{db: db, spoken: spoken, dollar: d == sqlfence.PostgreSQL, fences: fences}, nil
}

// say returns a statement as the database takes it.
func (b *sqlBook) say(statement string) string {
	statement = b.spoken.Replace(statement)
	for n := 1; b.dollar && strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", "$"+strconv.Itoa(n), 1)
	}
	return statement
}

func (b *sqlBook) exec(ctx context.Context, tx *sql.Tx, statement string, args ...any) (rows int64, err error) {
	res, err := tx.ExecContext(ctx, b.say(statement), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// in runs do in a transaction. One with a token begins with the fence, and
// reads and writes nothing if that refuses.
func (b *sqlBook) in(ctx context.Context, sku string, token uint64, do func(tx *sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if token > 0 {
		if err := b.fences.Check(ctx, tx, guard.Key("stock", sku), token); err != nil {
			return err
		}
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (b *sqlBook) Read(ctx context.Context, sku string, token uint64) (left int, err error) {
	err = b.in(ctx, sku, token, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, b.say("SELECT n FROM STOCK WHERE sku = ?"), sku).Scan(&left)
	})
	return left, err
}

func (b *sqlBook) Place(ctx context.Context, sku, order string, left int, token uint64) error {
	return b.in(ctx, sku, token, func(tx *sql.Tx) error {
		_, err1 := b.exec(ctx, tx, "UPDATE STOCK SET n = ? WHERE sku = ?", left, sku)
		_, err2 := b.exec(ctx, tx, "INSERT INTO ORDERS (id) VALUES (?)", order)
		return errors.Join(err1, err2)
	})
}

func (b *sqlBook) Take(ctx context.Context, sku, order string) (left int, err error) {
	err = b.in(ctx, sku, 0, func(tx *sql.Tx) error {
		rows, err := b.exec(ctx, tx, "UPDATE STOCK SET n = n - 1 WHERE sku = ? AND n > 0", sku)
		if err == nil && rows == 0 {
			return shop.ErrSoldOut
		}
		if err == nil {
			_, err = b.exec(ctx, tx, "INSERT INTO ORDERS (id) VALUES (?)", order)
		}
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, b.say("SELECT n FROM STOCK WHERE sku = ?"), sku).Scan(&left)
	})
	return left, err
}

func (b *sqlBook) Create(ctx context.Context, stock int) error {
	for _, statement := range []string{
		b.fences.Schema(),
		"CREATE TABLE STOCK (sku VARCHAR(40) PRIMARY KEY, n INTEGER NOT NULL)",
		"CREATE TABLE ORDERS (id VARCHAR(40) PRIMARY KEY)",
	} {
		if _, err := b.db.ExecContext(ctx, b.spoken.Replace(statement)); err != nil {
			return err
		}
	}
	_, err := b.db.ExecContext(ctx, b.say("INSERT INTO STOCK (sku, n) VALUES (?, ?)"), shop.SKU, stock)
	return err
}

func (b *sqlBook) Glance(ctx context.Context) (left, orders int, err error) {
	row := b.db.QueryRowContext(ctx, b.say("SELECT n, (SELECT COUNT(*) FROM ORDERS) FROM "+
		"STOCK WHERE sku = ?"), shop.SKU)
	err = row.Scan(&left, &orders)
	return left, orders, err
}

func (b *sqlBook) Orders(ctx context.Context) (ids []string, err error) {
	rows, err := b.db.QueryContext(ctx, b.say("SELECT id FROM ORDERS"))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (b *sqlBook) Remove(ctx context.Context) (err error) {
	for _, table := range []string{"STOCK", "ORDERS", "FENCES"} {
		_, dropped := b.db.ExecContext(ctx, b.say("DROP TABLE IF EXISTS "+table))
		err = errors.Join(err, dropped)
	}
	return err
}

func (b *sqlBook) Close() error { return b.db.Close() }

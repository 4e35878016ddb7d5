package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// stock is a shop's: it asks for the price between two transactions, which no
// single one should wait for.
type stock struct {
	db     *sql.DB
	fences *sqlfence.Table
}

// sell runs under the guard's lease on key.
func (s stock) sell(ctx context.Context, key string) error {
	token, err := guard.FencingToken(ctx)
	if err != nil {
		return err
	}
	var left int
	err = s.in(ctx, key, token, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT n FROM stock").Scan(&left)
	})
	if err != nil || left == 0 {
		return errors.Join(err, errors.New("sold out"))
	}
	// ... here the price is asked for ...
	return s.in(ctx, key, token, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE stock SET n = %d", left-1))
		return err
	})
}

// in runs do in a transaction that is refused if the token is late.
func (s stock) in(ctx context.Context, key string, token uint64, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := s.fences.Check(ctx, tx, key, token); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func Example() {
	ctx := context.Background()
	for _, d := range databases { // PostgreSQL, MariaDB and SQLite
		fences, err := sqlfence.New(d.dialect, "fences")
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, statement := range []string{
			fences.Schema(), "CREATE TABLE stock (n INTEGER NOT NULL)",
			"INSERT INTO stock VALUES (500)",
		} {
			if _, err := d.db.ExecContext(ctx, statement); err != nil {
				fmt.Println(err)
			}
		}
		shop := stock{d.db, fences}

		g, err := guard.New(memlocker.New(), guard.WithFencing())
		if err != nil {
			fmt.Println(err)
			return
		}
		key := guard.Key("stock", "lamp")
		err = g.Do(ctx, key, func(ctx context.Context) error { return shop.sell(ctx, key) })
		fmt.Println("sold:", err)

		// Somebody who has slept since before that.
		err = shop.in(ctx, key, 1, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE stock SET n = 500")
			return err
		})
		var left int
		_ = d.db.QueryRowContext(ctx, "SELECT n FROM stock").Scan(&left)
		fmt.Println("late:", errors.Is(err, fence.ErrLateWrite), left)
		g.Close(ctx)
	}
	// Output:
	// sold: <nil>
	// late: true 499
	// sold: <nil>
	// late: true 499
	// sold: <nil>
	// late: true 499
}

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/fence/sqlresult"
)

// preparing runs the statements of a transaction prepared, as GORM's
// PreparedStmtTX does.
type preparing struct{ tx *sql.Tx }

func (p preparing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.tx.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (p preparing) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := p.tx.PrepareContext(ctx, query)
	if err != nil {
		return p.tx.QueryRowContext(ctx, query, args...)
	}
	return s.QueryRowContext(ctx, args...)
}

// What tools have for a transaction will do. What is none is refused, because
// the check, or the result, would end with its own statement.
func TestATransactionOfAToolWillDo(t *testing.T) {
	onTills(t, func(c till) {
		s := create(c.T, ours, c.database)
		fences, err := sqlfence.New(c.dialect, s.table)
		if err != nil {
			c.Fatal(err)
		}
		if err := c.inTool(fences, 7); err != nil {
			c.Error(err)
		}
		if err := c.inTool(fences, 6); !errors.Is(err, fence.ErrLateWrite) {
			c.Errorf("a late write: %v", err)
		}
		if r, found, err := c.results.Recall(c.Context(), c.db, "k"); err != nil || !found || string(r.Value) != "v" {
			c.Errorf("the result: %v, %v, %v", r, found, err)
		}
		conn, err := c.db.Conn(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		defer conn.Close()
		for _, none := range []sqlfence.Tx{c.db, conn} {
			err := fences.Check(c.Context(), none, "x", 1)
			kept := c.results.Keep(c.Context(), none, "x", sqlresult.Record{}, time.Hour)
			if !errors.Is(err, guard.ErrInvalidOption) || !errors.Is(kept, guard.ErrInvalidOption) {
				c.Errorf("%T: %v, %v", none, err, kept)
			}
		}
	})
}

// inTool checks a token and keeps a result in a transaction of a tool.
func (c till) inTool(fences *sqlfence.Table, token uint64) error {
	tx, err := c.db.BeginTx(c.Context(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	tool := preparing{tx}
	if err := fences.Check(c.Context(), tool, "k", token); err != nil {
		return err
	}
	if err := c.results.Keep(c.Context(), tool, "k", sqlresult.Record{Value: []byte("v")}, time.Hour); err != nil {
		return err
	}
	return tx.Commit()
}

package sqlresult_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
)

type Receipt struct {
	OrderID string
	Cents   int
}

// pay is what the documents show. The checks on PostgreSQL, MariaDB and SQLite
// are in lab/fencetest.
func pay(ctx context.Context, g *guard.Guard, db *sql.DB, results *sqlresult.Table, orderID, account string, cents int,
) (Receipt, error) {
	receipt, err := sqlresult.Once(ctx, g, db, results, guard.Key("pay", orderID), 24*time.Hour,
		func(ctx context.Context, tx *sql.Tx) (Receipt, error) {
			_, err := tx.ExecContext(ctx, "UPDATE balances SET cents = cents - $1 WHERE id = $2", cents, account)
			return Receipt{OrderID: orderID, Cents: cents}, err
		})
	return receipt, err
}

func TestWithoutADatabaseNothingRuns(t *testing.T) {
	results, err := sqlresult.New(sqlresult.PostgreSQL, "shop.results")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pay(t.Context(), nil, nil, results, "7", "a", 1); !errors.Is(err, guard.ErrInvalidOption) {
		t.Error(err)
	}
	if _, err := pay(t.Context(), nil, new(sql.DB), nil, "7", "a", 1); !errors.Is(err, guard.ErrInvalidOption) {
		t.Error(err)
	}
}

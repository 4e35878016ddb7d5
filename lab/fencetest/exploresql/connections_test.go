package exploresql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

// charging is a scenario: two clients do f. An error that says one of the words
// breaks it, whatever faults came.
func charging(dsn string, f func(ctx context.Context, w *explore.World, db *sql.DB) error, words ...string,
) func(*explore.World) {
	return func(w *explore.World) {
		s := newShop(w)
		var wrong error
		for _, name := range []string{"A", "B"} {
			w.Deliver(name, func(ctx context.Context, _ *guard.Guard) error {
				err := f(ctx, w, w.Open(ctx, "sqlite", s.dsn+dsn))
				for _, word := range words {
					if err != nil && strings.Contains(err.Error(), word) {
						return w.Step(ctx, "fail", func() error { wrong = fmt.Errorf("%s: %w", name, err); return nil })
					}
				}
				return nil
			})
		}
		w.Check(func() error { return wrong })
	}
}

func charge(ctx context.Context, db *sql.DB) error {
	return inTx(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO charges VALUES ('7')`)
		return err
	})
}

// A process never finds what another one has left in a connection, neither in
// the same run nor in an earlier one.
func TestAProcessHasItsOwnConnections(t *testing.T) {
	openShop(t)
	for name, f := range map[string]func(ctx context.Context, w *explore.World, db *sql.DB) error{
		"a table of the connection": func(ctx context.Context, _ *explore.World, db *sql.DB) error {
			_, err := db.ExecContext(ctx, `CREATE TEMP TABLE mine (n INTEGER)`)
			return err
		},
		"a table, behind a row": func(ctx context.Context, _ *explore.World, db *sql.DB) error {
			_, err := db.ExecContext(ctx, `INSERT INTO charges VALUES ('7'); CREATE TEMP TABLE mine (n INTEGER)`)
			return err
		},
		"a transaction": func(ctx context.Context, w *explore.World, db *sql.DB) error {
			tx, err := db.Begin() // no ctx ends it
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO charges VALUES ('7')`); err != nil {
				return err
			}
			if err := w.Step(ctx, "ask", func() error { return nil }); err != nil {
				return err // and forgets to roll back
			}
			return tx.Commit()
		},
		"a statement": func(ctx context.Context, _ *explore.World, db *sql.DB) error {
			st, err := db.PrepareContext(ctx, `INSERT INTO charges VALUES (?)`)
			if err != nil {
				return err
			}
			_, err = st.ExecContext(ctx, "7")
			return err // and forgets to close it
		},
	} {
		t.Run(name, func(t *testing.T) {
			words := []string{"already exists", "within a transaction"}
			explore.Test(t, charging("", f, words...), explore.SameDatabase(), explore.Level(1))
		})
	}
}

// A process that has died begins no transaction, which would hold the lock of
// the database.
func TestADeadProcessHoldsNoLock(t *testing.T) {
	openShop(t)
	for _, at := range []string{"INSERT-INTO-charges", "COMMIT"} {
		t.Setenv("EXPLORE", "A/"+at+"=crash")
		explore.Test(t, charging("&_txlock=immediate", func(ctx context.Context, _ *explore.World, db *sql.DB) error {
			if charge(ctx, db) == nil {
				return nil
			}
			return charge(ctx, db)
		}, "locked"), explore.SameDatabase())
	}
}

// A COMMIT whose ctx ends leaves no transaction in the connection.
func TestACommitThatFailsLeavesNoTransaction(t *testing.T) {
	openShop(t)
	explore.Test(t, func(w *explore.World) {
		s := newShop(w)
		cancel, wrong := func() {}, error(nil)
		w.Go("A", func(ctx context.Context, _ *guard.Guard) error {
			db := w.Open(ctx, "sqlite", s.dsn)
			var hasty context.Context
			hasty, cancel = context.WithCancel(ctx)
			if charge(hasty, db) == nil {
				return nil
			}
			if err := charge(ctx, db); err != nil && strings.Contains(err.Error(), "within a transaction") {
				wrong = err
			}
			return nil
		})
		w.Go("B", func(ctx context.Context, _ *guard.Guard) error {
			return w.Step(ctx, "cancel", func() error { cancel(); return nil })
		})
		w.Check(func() error { return wrong })
	}, explore.SameDatabase(), explore.Level(1))
}

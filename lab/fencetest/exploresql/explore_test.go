package exploresql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/guardtest/explore"
	"github.com/go-lockguard/guard/internal/testsize"
)

var (
	results, _ = sqlresult.New(sqlresult.SQLite, "results")
	fences, _  = sqlfence.New(sqlfence.SQLite, "fences")
)

// shop is a database with one sku, which each run begins with.
type shop struct {
	w   *explore.World
	dsn string
	db  *sql.DB // of the scenario, not of a process
}

// theShop is the one of all runs.
var theShop shop

// newShop empties the shop.
func newShop(w *explore.World) *shop {
	_, err := theShop.db.ExecContext(context.Background(), `BEGIN; DELETE FROM stock; INSERT INTO stock VALUES ('42', 3);
		DELETE FROM orders; DELETE FROM charges; DELETE FROM outbox; DELETE FROM fences; DELETE FROM results; COMMIT`)
	must(err)
	return &shop{w: w, dsn: theShop.dsn, db: theShop.db}
}

// openShop makes the database of all runs.
func openShop(t *testing.T) {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "shop") + "?_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	db, err := sql.Open("sqlite", dsn)
	must(err)
	t.Cleanup(func() { _ = db.Close() })
	for _, q := range []string{
		`CREATE TABLE stock (sku TEXT PRIMARY KEY, n INTEGER)`, `CREATE TABLE orders (id TEXT PRIMARY KEY)`,
		`CREATE TABLE charges (order_id TEXT)`, `CREATE TABLE outbox (order_id TEXT)`, fences.Schema(), results.Schema(),
	} {
		_, err := db.ExecContext(t.Context(), q)
		must(err)
	}
	theShop = shop{dsn: dsn, db: db}
}

// must is for the scenario, which must not call t.Fatal.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (s *shop) number(query string) (n int) {
	must(s.db.QueryRowContext(context.Background(), query).Scan(&n))
	return n
}

func deliver(w *explore.World, s *shop, name string, f func(ctx context.Context, g *guard.Guard, db *sql.DB) error) {
	w.Deliver(name, func(ctx context.Context, g *guard.Guard) error { return f(ctx, g, w.Open(ctx, "sqlite", s.dsn)) })
}

// ledger: an order is charged by a row, with a result that is kept.
func ledger(pay func(ctx context.Context, g *guard.Guard, db *sql.DB) error) func(*explore.World) {
	return func(w *explore.World) {
		s, paid := newShop(w), false
		deliver(w, s, "pay", func(ctx context.Context, g *guard.Guard, db *sql.DB) error {
			err := pay(ctx, g, db)
			paid = paid || err == nil
			return err
		})
		w.Check(func() error {
			n := s.number(`SELECT count(*) FROM charges`)
			if n > 1 || n == 0 && paid {
				return fmt.Errorf("order 7 was charged %d times; its client was told success: %t", n, paid)
			}
			return nil
		})
	}
}

func payWithOnce(ctx context.Context, g *guard.Guard, db *sql.DB) error {
	_, err := guard.Once(ctx, g, "pay:7", time.Hour, func(ctx context.Context) (string, error) {
		_, err := db.ExecContext(ctx, `INSERT INTO charges VALUES ('7')`)
		return "receipt", err
	})
	return err
}

func payInOneTransaction(ctx context.Context, g *guard.Guard, db *sql.DB) error {
	_, err := sqlresult.Once(ctx, g, db, results, "pay:7", time.Hour, func(ctx context.Context, tx *sql.Tx) (string, error) {
		_, err := tx.ExecContext(ctx, `INSERT INTO charges VALUES ('7')`)
		return "receipt", err
	})
	return err
}

// counter: two orders read, ask for the price, and write, in two transactions.
func counter(sell func(context.Context, *guard.Guard, *shop, *sql.DB, string) error) func(*explore.World) {
	return func(w *explore.World) {
		s := newShop(w)
		for _, order := range []string{"A", "B"} {
			deliver(w, s, order, func(ctx context.Context, g *guard.Guard, db *sql.DB) error {
				return sell(ctx, g, s, db, order)
			})
		}
		w.Check(func() error {
			sold, left := s.number(`SELECT count(*) FROM orders`), s.number(`SELECT n FROM stock`)
			if left+sold != 3 {
				return fmt.Errorf("%d orders are sold, and %d of 3 are left", sold, left)
			}
			return nil
		})
	}
}

func sellPlainly(ctx context.Context, g *guard.Guard, s *shop, db *sql.DB, order string) error {
	return sellIn(ctx, g, s, db, order, func(context.Context, *sql.Tx) error { return nil }, false)
}

func sellWriteFenced(ctx context.Context, g *guard.Guard, s *shop, db *sql.DB, order string) error {
	return sellIn(ctx, g.With(guard.WithFencing()), s, db, order, checkFence, false)
}

func sellFenced(ctx context.Context, g *guard.Guard, s *shop, db *sql.DB, order string) error {
	return sellIn(ctx, g.With(guard.WithFencing()), s, db, order, checkFence, true)
}

func checkFence(ctx context.Context, tx *sql.Tx) error {
	token, err := guard.FencingToken(ctx)
	if err != nil {
		return err
	}
	return fences.Check(ctx, tx, "stock:42", token)
}

func sellIn(ctx context.Context, g *guard.Guard, s *shop, db *sql.DB, order string,
	check func(context.Context, *sql.Tx) error, reads bool,
) error {
	return g.Do(ctx, "stock:42", func(ctx context.Context) error {
		var left, known int
		if err := inTx(ctx, db, func(tx *sql.Tx) error {
			if reads {
				if err := check(ctx, tx); err != nil {
					return err
				}
			}
			return tx.QueryRowContext(ctx, `SELECT n, (SELECT count(*) FROM orders WHERE id = ?) FROM stock`, order).
				Scan(&left, &known)
		}); err != nil || known > 0 {
			return err
		}
		return inTx(ctx, db, func(tx *sql.Tx) error {
			if err := check(ctx, tx); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (?)`, order); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `UPDATE stock SET n = ?`, left-1)
			return err
		})
	})
}

func inTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

type seller func(ctx context.Context, g *guard.Guard, s *shop, db *sql.DB, tell func(context.Context) error) error

// outbox: an order must be sold and told of, or neither.
func outbox(sell seller) func(*explore.World) {
	return func(w *explore.World) {
		s, told := newShop(w), 0
		w.Go("sell", func(ctx context.Context, g *guard.Guard) error {
			return sell(ctx, g, s, w.Open(ctx, "sqlite", s.dsn), func(ctx context.Context) error {
				return w.Step(ctx, "tell the others", func() error { told++; return nil })
			})
		})
		w.Check(func() error {
			sold, kept := s.number(`SELECT count(*) FROM orders`), s.number(`SELECT count(*) FROM outbox`)
			switch {
			case sold > 0 && told == 0 && kept == 0:
				return errors.New("an order that nobody will hear of")
			case sold == 0 && told > 0:
				return errors.New("told of an order that is not there")
			}
			return nil
		})
	}
}

func sellThenTell(ctx context.Context, g *guard.Guard, _ *shop, db *sql.DB, tell func(context.Context) error) error {
	return g.Do(ctx, "order:7", func(ctx context.Context) error {
		res, err := db.ExecContext(ctx, `INSERT INTO orders VALUES ('7') ON CONFLICT DO NOTHING`)
		if err != nil {
			return err
		}
		if n, _ := res.RowsAffected(); n == 0 {
			return nil // it has been done
		}
		return tell(ctx)
	})
}

func tellThenSell(ctx context.Context, g *guard.Guard, _ *shop, db *sql.DB, tell func(context.Context) error) error {
	return g.Do(ctx, "order:7", func(ctx context.Context) error {
		if err := tell(ctx); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, `INSERT INTO orders VALUES ('7') ON CONFLICT DO NOTHING`)
		return err
	})
}

func sellWithOutbox(ctx context.Context, g *guard.Guard, _ *shop, db *sql.DB, tell func(context.Context) error) error {
	if err := g.Do(ctx, "order:7", func(ctx context.Context) error {
		return inTx(ctx, db, func(tx *sql.Tx) error {
			res, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES ('7') ON CONFLICT DO NOTHING`)
			if err != nil {
				return err
			}
			if n, _ := res.RowsAffected(); n == 0 {
				return nil
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO outbox VALUES ('7')`)
			return err
		})
	}); err != nil {
		return err
	}
	return g.Do(ctx, "relay", func(ctx context.Context) error {
		var n int
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM outbox`).Scan(&n); err != nil || n == 0 {
			return err
		}
		if err := tell(ctx); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, `DELETE FROM outbox`)
		return err
	})
}

func TestExploreSQL(t *testing.T) {
	openShop(t)
	for name, c := range map[string]struct {
		scenario func(*explore.World)
		breaks   bool
	}{
		"ledger, Once":               {ledger(payWithOnce), true},
		"ledger, sqlresult":          {ledger(payInOneTransaction), false},
		"counter, Do":                {counter(sellPlainly), true},
		"counter, write fenced":      {counter(sellWriteFenced), true},
		"counter, all fenced":        {counter(sellFenced), false},
		"outbox, sell then tell":     {outbox(sellThenTell), true},
		"outbox, tell then sell":     {outbox(tellThenSell), true},
		"outbox, in one transaction": {outbox(sellWithOutbox), false},
	} {
		t.Run(name, func(t *testing.T) {
			most := testsize.Pick(100, 30)
			if c.breaks {
				most = 100 // all single faults
			}
			runs := 0
			find := func() string {
				return explore.Find(t, func(w *explore.World) { runs++; c.scenario(w) },
					explore.SameDatabase(), explore.StoreMayForget(), explore.Level(2), explore.Runs(most))
			}
			start := time.Now()
			story := find()
			t.Logf("%d runs, %.0f runs/s\n%s", runs, float64(runs)/time.Since(start).Seconds(), story)
			if (story != "") != c.breaks {
				t.Errorf("broken: %t, want %t", story != "", c.breaks)
			}
			if c.breaks && find() != story {
				t.Error("the second search has another story")
			}
		})
	}
}

// Connections to SQLite in memory would block each other, or see a database each.
func TestSQLiteInMemoryIsRefused(t *testing.T) {
	for _, dsn := range []string{":memory:", "file:/shop?vfs=memdb", "file:shop?mode=memory&cache=shared"} {
		story := explore.Find(t, func(w *explore.World) {
			w.Go("pay", func(ctx context.Context, _ *guard.Guard) error {
				return w.Open(ctx, "sqlite", dsn).PingContext(ctx)
			})
		})
		if !strings.Contains(story, "SQLite in memory") || !strings.Contains(story, "journal_mode(wal)") {
			t.Errorf("%s: %s", dsn, story)
		}
	}
}

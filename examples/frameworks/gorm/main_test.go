package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/glebarez/sqlite"
	"go.uber.org/goleak"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/locker/memlocker"
)

var mariaDSN string

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	maria, err := sqltest.StartMySQL()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mariaDSN = strings.NewReplacer("mysql://", "", "@", "@tcp(", "/guard", ")/guard").Replace(maria.URL)
	code := m.Run()
	maria.Close()
	statements := goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1") // GORM never ends it
	if err := goleak.Find(statements); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// database is one that GORM opens, in one of its modes.
type database struct {
	name    string
	dialect sqlfence.Dialect
	mode    gorm.Config

	// within is GORM inside a transaction of database/sql.
	within func(tx *sql.Tx) gorm.Dialector
}

// onDatabases runs test on SQLite and MariaDB, with statements as they are and
// prepared.
func onDatabases(t *testing.T, test func(t *testing.T, d database, db *gorm.DB)) {
	t.Helper()
	quiet := logger.Discard
	for _, prepared := range []bool{false, true} {
		mode := gorm.Config{PrepareStmt: prepared, Logger: quiet}
		t.Run(fmt.Sprintf("SQLite, PrepareStmt %v", prepared), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "db")
			test(t, database{"SQLite", sqlfence.SQLite, mode, func(tx *sql.Tx) gorm.Dialector {
				return &sqlite.Dialector{Conn: tx}
			}}, opened(t, sqlite.Open(file+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)"), mode))
		})
		t.Run(fmt.Sprintf("MariaDB, PrepareStmt %v", prepared), func(t *testing.T) {
			test(t, database{"MariaDB", sqlfence.MySQL, mode, func(tx *sql.Tx) gorm.Dialector {
				return mysql.New(mysql.Config{Conn: tx, SkipInitializeWithVersion: true})
			}}, maria(t, mode))
		})
	}
}

// maria opens MariaDB without the tables of an earlier test.
func maria(t *testing.T, mode gorm.Config) *gorm.DB {
	t.Helper()
	db := opened(t, mysql.Open(mariaDSN), mode)
	if err := db.Exec("DROP TABLE IF EXISTS stocks, orders, fences, results").Error; err != nil {
		t.Fatal(err)
	}
	return db
}

func opened(t *testing.T, d gorm.Dialector, mode gorm.Config) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(d, &mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pool, err := db.DB(); err != nil || pool.Close() != nil {
			t.Error("the database does not close")
		}
	})
	return db
}

// stocked is a shop with n of each sku.
func stocked(t *testing.T, d database, db *gorm.DB, g *guard.Guard, n int, skus ...string) *shop {
	t.Helper()
	s, err := open(db, g, d.dialect)
	if err != nil {
		t.Fatal(err)
	}
	for _, sku := range skus {
		if err := db.Create(&Stock{SKU: sku, N: n}).Error; err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// want wants what is left of a sku, and how many orders there are of it.
func (s *shop) want(t *testing.T, sku string, left int, orders int64) {
	t.Helper()
	var stock Stock
	var sold int64
	err := errors.Join(s.db.First(&stock, "sku = ?", sku).Error,
		s.db.Model(&Order{}).Where("sku = ?", sku).Count(&sold).Error)
	if err != nil || stock.N != left || sold != orders {
		t.Errorf("%s: %d left, %d orders, %v, want %d and %d", sku, stock.N, sold, err, left, orders)
	}
}

// processes are guards on one store.
func processes(t *testing.T, n int) []*guard.Guard {
	t.Helper()
	store := memlocker.New()
	all := make([]*guard.Guard, n)
	for i := range all {
		g, err := guard.New(store.Peer(), guard.WithMaxWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		all[i] = g
	}
	return all
}

func TestNothingIsOversold(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database, db *gorm.DB) {
		t.Helper()
		const stock, buyers = 10, 30
		gs := processes(t, 3)
		shops := make([]*shop, len(gs))
		for i, g := range gs {
			shops[i] = stocked(t, d, db, g, stock)
		}
		for _, sku := range []string{"42", "43"} {
			if err := db.Create(&Stock{SKU: sku, N: stock}).Error; err != nil {
				t.Fatal(err)
			}
		}
		var sold, refused atomic.Int64
		var all sync.WaitGroup
		for i := range buyers {
			all.Go(func() { // ends with its purchase
				s, skus := shops[i%len(shops)], []string{"42", "43"}
				var err error
				if i%2 == 0 {
					err = errors.Join(s.buy(t.Context(), "42", 1), s.buy(t.Context(), "43", 1))
				} else {
					err = s.buyAll(t.Context(), skus)
				}
				switch {
				case err == nil:
					sold.Add(1)
				case errors.Is(err, errSoldOut):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if refused.Load() != buyers-sold.Load() || sold.Load() > stock {
			t.Errorf("%d have bought, %d were refused", sold.Load(), refused.Load())
		}
		shops[0].want(t, "42", 0, stock)
		shops[0].want(t, "43", 0, stock)
	})
}

func TestTheRouteSaysThatItIsSoldOut(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database, db *gorm.DB) {
		t.Helper()
		g := guardtest.New(t, guard.WithMaxWait(0))
		s := stocked(t, d, db, g.Guard, 1, "42")
		buy := func() int {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/skus/42/buy", http.NoBody)
			s.routes().ServeHTTP(w, r)
			return w.Code
		}
		release := g.Hold(guard.Key("stock", "42"))
		held := buy()
		release()
		if first, second := buy(), buy(); held != 409 || first != 204 || second != 410 {
			t.Errorf("answers %d, %d and %d", held, first, second)
		}
		s.want(t, "42", 0, 1)
	})
}

func TestALateWriteIsRefused(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database, db *gorm.DB) {
		t.Helper()
		s := stocked(t, d, db, guardtest.New(t).Guard, 5, "42")
		take := func(token uint64) error {
			return db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
				return s.take(tx, "42", 1, token)
			})
		}
		if err := take(8); err != nil {
			t.Error(err)
		}
		if err := take(7); !errors.Is(err, fence.ErrLateWrite) {
			t.Errorf("a token lower than the last one: %v", err)
		}
		s.want(t, "42", 4, 1)
	})
}

// What is no transaction is refused: the check would end with its statement.
func TestACheckOutsideATransactionIsRefused(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database, db *gorm.DB) {
		t.Helper()
		s := stocked(t, d, db, guardtest.New(t).Guard, 1)
		for _, conn := range []gorm.ConnPool{db.Statement.ConnPool, db.WithContext(t.Context()).Statement.ConnPool} {
			if err := s.fences.Check(t.Context(), conn, "k", 1); !errors.Is(err, guard.ErrInvalidOption) {
				t.Errorf("%T: %v", conn, err)
			}
		}
	})
}

func TestARollbackLeavesNothing(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database, db *gorm.DB) {
		t.Helper()
		s := stocked(t, d, db, guardtest.New(t).Guard, 5, "42", "43")
		broken := errors.New("broken")
		full := func(tx *gorm.DB) {
			if o, ok := tx.Statement.Dest.(*Order); ok && o.SKU == "43" {
				_ = tx.AddError(broken)
			}
		}
		if err := db.Callback().Create().Before("gorm:create").Register("full", full); err != nil {
			t.Fatal(err)
		}
		if err := s.buyAll(t.Context(), []string{"43", "42"}); !errors.Is(err, broken) {
			t.Errorf("the cart: %v", err)
		}
		if err := s.buy(t.Context(), "43", 1); !errors.Is(err, broken) {
			t.Errorf("the sku: %v", err)
		}
		s.want(t, "42", 5, 0)
		s.want(t, "43", 5, 0)
		var fenced int64
		if err := db.Table("fences").Count(&fenced).Error; err != nil || fenced != 0 {
			t.Errorf("%d tokens are left, %v", fenced, err)
		}
	})
}

// A key whose lease is lost ends the context, and with it the transaction.
func TestALostLeaseRollsBack(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database, db *gorm.DB) {
		t.Helper()
		g := guardtest.New(t, guard.WithTTL(3*time.Second), guard.WithLogger(slog.New(slog.DiscardHandler)))
		s := stocked(t, d, db, g.Guard, 5, "42")
		lose := func(tx *gorm.DB) {
			g.Lose(guard.Key("stock", "42"))
			<-tx.Statement.Context.Done()
			// database/sql rolls back behind that, and until then would commit.
			for ctx := context.WithoutCancel(tx.Statement.Context); ; {
				if _, err := tx.Statement.ConnPool.ExecContext(ctx, "SELECT 1"); err != nil {
					return
				}
			}
		}
		if err := db.Callback().Create().After("gorm:create").Register("lose", lose); err != nil {
			t.Fatal(err)
		}
		if err := s.buy(t.Context(), "42", 2); !errors.Is(err, guard.ErrLeaseLost) {
			t.Error(err)
		}
		s.want(t, "42", 5, 0)
	})
}

// sell is what docs/recipes/gorm.md shows for a result in the same transaction.
func sell(
	ctx context.Context, s *shop, results *sqlresult.Table, within func(tx *sql.Tx) gorm.Dialector, id, sku string,
) (Order, error) {
	pool, err := s.db.DB()
	if err != nil {
		return Order{}, err
	}
	return sqlresult.Once(ctx, s.g, pool, results, guard.Key("sale", id), 24*time.Hour,
		func(ctx context.Context, tx *sql.Tx) (Order, error) {
			orm, err := gorm.Open(within(tx), &gorm.Config{SkipDefaultTransaction: true})
			if err != nil {
				return Order{}, err
			}
			order := Order{SKU: sku, Qty: 1}
			return order, orm.WithContext(ctx).Create(&order).Error
		})
}

func TestAResultIsKeptInTheTransactionOfGORM(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database, db *gorm.DB) {
		t.Helper()
		results, err := sqlresult.New(d.dialect, "results")
		if err != nil {
			t.Fatal(err)
		}
		for statement := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(results.Schema()), ";"), ";") {
			if err := db.Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
		}
		s := stocked(t, d, db, guardtest.New(t).Guard, 5, "42")
		for range 2 {
			if o, err := sell(t.Context(), s, results, d.within, "7", "42"); err != nil || o.SKU != "42" {
				t.Errorf("%+v, %v", o, err)
			}
		}
		s.want(t, "42", 5, 1)
	})
}

// buyWrong has the bug that docs/recipes/gorm.md shows.
func (s *shop) buyWrong(ctx context.Context, skus []string) error {
	tx := s.db.WithContext(ctx).Begin()
	defer tx.Rollback()
	for _, sku := range skus {
		lease, err := s.g.Acquire(ctx, guard.Key("stock", sku))
		if err != nil {
			return err
		}
		err = takeOne(tx, sku)
		_ = lease.Release(ctx) // the next one reads the stock from before the commit
		if err != nil {
			return err
		}
	}
	return tx.Commit().Error
}

func takeOne(tx *gorm.DB, sku string) error {
	var left Stock
	if err := tx.First(&left, "sku = ?", sku).Error; err != nil {
		return err
	}
	if left.N < 1 {
		return errSoldOut
	}
	left.N--
	return errors.Join(tx.Save(&left).Error, tx.Create(&Order{SKU: sku, Qty: 1}).Error)
}

// The bug is one: both buy the last one.
func TestALockThatIsReleasedBeforeTheCommitOversells(t *testing.T) {
	db := maria(t, gorm.Config{Logger: logger.Discard})
	g := guardtest.New(t, guard.WithMaxWait(time.Minute))
	s := stocked(t, database{dialect: sqlfence.MySQL}, db, g.Guard, 1, "42", "43")
	reads := make(chan struct{}, 3) // of the stock
	read := func(*gorm.DB) { reads <- struct{}{} }
	if err := db.Callback().Query().After("gorm:query").Register("read", read); err != nil {
		t.Fatal(err)
	}
	release := g.Hold(guard.Key("stock", "43"))
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- s.buyWrong(t.Context(), []string{"42", "43"}) }() // ends after release
	<-reads
	go func() { second <- s.buyWrong(t.Context(), []string{"42"}) }() // ends after the first
	<-reads
	release()
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	<-reads
	if err := db.Callback().Query().Remove("read"); err != nil {
		t.Error(err)
	}
	s.want(t, "42", 0, 2)
}

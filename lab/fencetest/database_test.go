package fencetest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/internal/sqltest"
)

// database is a server that the checks run on.
type database struct {
	name    string
	dialect sqlfence.Dialect
	db      *sql.DB
	levels  []sql.IsolationLevel // levels to try, beginning with the default
}

// databases are started once for all tests and examples.
var (
	databases []database
	mariaDSN  string
	dsns      = map[string]string{} // by name of the database
)

func TestMain(m *testing.M) {
	end, err := startDatabases()
	code := 1
	if err == nil {
		code = m.Run()
	}
	end()
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// startDatabases starts the servers. It returns a function that ends the
// started servers.
func startDatabases() (end func(), err error) {
	var ends []func()
	end = func() {
		for _, f := range slices.Backward(ends) {
			f()
		}
	}
	dir, err := os.MkdirTemp("", "fencetest")
	if err != nil {
		return end, err
	}
	ends = append(ends, func() { os.RemoveAll(dir) })
	pg, err := sqltest.StartPostgreSQL()
	if err != nil {
		return end, err
	}
	ends = append(ends, pg.Close)
	maria, err := sqltest.StartMySQL()
	if err != nil {
		return end, err
	}
	ends = append(ends, maria.Close)
	mariaDSN = strings.NewReplacer("mysql://", "", "@", "@tcp(", "/guard", ")/guard").Replace(maria.URL)
	locks := []sql.IsolationLevel{
		sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead,
		sql.LevelSerializable,
	}
	for _, d := range []struct {
		database

		driver, dsn string
	}{
		{database{name: "PostgreSQL", dialect: sqlfence.PostgreSQL, levels: locks}, "pgx", pg.URL},
		{database{name: "MariaDB", dialect: sqlfence.MySQL, levels: locks}, "mysql", mariaDSN},
		{
			database{name: "SQLite", dialect: sqlfence.SQLite, levels: []sql.IsolationLevel{sql.LevelDefault}},
			"sqlite", "file:" + filepath.Join(dir, "db") + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)",
		},
	} {
		dsns[d.name] = d.dsn
		if d.db, err = sql.Open(d.driver, d.dsn); err != nil {
			return end, err
		}
		ends = append(ends, func() { d.db.Close() })
		databases = append(databases, d.database)
	}
	return end, nil
}

var tables atomic.Int32

// subject is the code under test. It is package sqlfence, or a wrong variant of
// it.
type subject struct {
	database

	table  string
	schema string
	check  func(ctx context.Context, tx *sql.Tx, key string, token uint64) error
}

// variant makes a subject on a table of that name.
type variant func(d database, table string) subject

func ours(d database, table string) subject {
	f, err := sqlfence.New(d.dialect, table)
	if err != nil {
		panic(err)
	}
	return subject{d, table, f.Schema(), func(ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		return f.Check(ctx, tx, key, token)
	}}
}

// create makes the variant's tables on d and drops them when t ends. These are
// the tables of the fences, and the rows (n, log) that they protect.
func create(t *testing.T, v variant, d database) subject {
	t.Helper()
	s := v(d, fmt.Sprintf("fences_%d", tables.Add(1)))
	serial := map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "SERIAL PRIMARY KEY", sqlfence.MySQL: "INTEGER AUTO_INCREMENT PRIMARY KEY",
		sqlfence.SQLite: "INTEGER PRIMARY KEY",
	}[d.dialect]
	for _, statement := range []string{
		s.schema,
		"CREATE TABLE " + s.table + "_n (n BIGINT NOT NULL)",
		"CREATE TABLE " + s.table + "_log (id " + serial + ", token BIGINT NOT NULL)",
		"INSERT INTO " + s.table + "_n VALUES (0)",
	} {
		if _, err := d.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	t.Cleanup(func() {
		for _, suffix := range []string{"", "_n", "_log"} {
			_, _ = d.db.ExecContext(context.WithoutCancel(t.Context()), "DROP TABLE "+s.table+suffix)
		}
	})
	return s
}

// in runs do in a transaction. It commits if do returns nil, and otherwise
// rolls back.
func (s subject) in(ctx context.Context, level sql.IsolationLevel, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// pass runs Check alone in a transaction.
func (s subject) pass(ctx context.Context, key string, token uint64) error {
	return s.in(ctx, sql.LevelDefault, func(tx *sql.Tx) error { return s.check(ctx, tx, key, token) })
}

// again reports whether the transaction must begin again after err.
func again(err error) bool {
	for _, text := range []string{"40001", "40P01", "Error 1213", "database is locked"} {
		if err != nil && strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

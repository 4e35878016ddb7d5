// Command bench compares guard on MariaDB with SELECT ... FOR UPDATE, in
// alternating short rounds on one server that writes to its disk.
//
//	go -C locker/mysqllocker run ./bench
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/sqltest/sqlbench"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

func main() {
	length := flag.Duration("round", 2*time.Second, "length of a round")
	rounds := flag.Int("rounds", 3, "rounds of each")
	leases := flag.Int("leases", 0, "instead hold so many leases of 10 s for half a minute")
	flag.Parse()
	if err := run(*length, *rounds, *leases); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// address is the driver's data source name of the server.
type address string

func run(length time.Duration, rounds, leases int) error {
	server, err := sqltest.StartMariaDB("innodb-flush-log-at-trx-commit=1", "innodb-buffer-pool-size=128M",
		"max-connections=300")
	if err != nil {
		return err
	}
	defer server.Close()
	dsn := address(strings.NewReplacer("mysql://", "", "@", "@tcp(", "/guard", ")/guard").Replace(server.URL))
	db, err := dsn.open(25)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := context.Background()
	if err := mysqllocker.New(db).Migrate(ctx); err != nil {
		return err
	}
	if leases > 0 {
		return sqlbench.Hold(mysqllocker.New(db), leases)
	}
	if err := makeRows(ctx, db); err != nil {
		return err
	}
	for _, c := range sqlbench.Contests {
		if err := c.Print(length, rounds, sqlbench.Guard(dsn.locker), sqlbench.Rival{
			Name: "FOR UPDATE", Start: dsn.forUpdate,
		}); err != nil {
			return err
		}
	}
	return nil
}

// makeRows makes the rows that FOR UPDATE locks.
func makeRows(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE rival (k VARBINARY(255) PRIMARY KEY) ENGINE = InnoDB")
	for _, c := range sqlbench.Contests {
		for p := range c.Processes {
			for caller := range c.Callers {
				if err == nil {
					_, err = db.ExecContext(ctx, "INSERT IGNORE INTO rival VALUES (?)", c.Key(p, caller))
				}
			}
		}
	}
	return err
}

// open returns a handle that keeps so many connections.
func (a address) open(conns int) (*sql.DB, error) {
	db, err := sql.Open("mysql", string(a))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func (a address) locker() (locker.Locker, func(), error) {
	db, err := a.open(4)
	if err != nil {
		return nil, nil, err
	}
	return mysqllocker.New(db), func() { _ = db.Close() }, nil
}

// forUpdate is what most services write: a transaction that begins with the
// lock of a row, and is open while the section runs.
func (a address) forUpdate(callers int) (sqlbench.Process, error) {
	db, err := a.open(callers)
	if err != nil {
		return sqlbench.Process{}, err
	}
	section := func(ctx context.Context, key string, f func()) error {
		return lockRow(ctx, db, key, f)
	}
	return sqlbench.Process{Section: section, Close: func() { _ = db.Close() }}, nil
}

func lockRow(ctx context.Context, db *sql.DB, key string, f func()) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var k []byte
	if err := tx.QueryRowContext(ctx, "SELECT k FROM rival WHERE k = ? FOR UPDATE", key).Scan(&k); err != nil {
		return err
	}
	f()
	return tx.Commit()
}

// Command bench measures guard on SQLite, in a file in the temporary directory.
//
//	go -C locker/sqlitelocker run ./bench
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/go-lockguard/guard/internal/sqltest/sqlbench"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/sqlitelocker"
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

func run(length time.Duration, rounds, leases int) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "locks.db")
	db, err := open(file)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := sqlitelocker.New(db).Migrate(context.Background()); err != nil {
		return err
	}
	if leases > 0 {
		return sqlbench.Hold(sqlitelocker.New(db), leases)
	}
	process := sqlbench.Guard(func() (locker.Locker, func(), error) {
		db, err := open(file)
		if err != nil {
			return nil, nil, err
		}
		return sqlitelocker.New(db), func() { _ = db.Close() }, nil
	})
	for _, c := range sqlbench.Contests {
		if err := c.Print(length, rounds, process); err != nil {
			return err
		}
	}
	return nil
}

func open(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err == nil {
		db.SetMaxIdleConns(4)
	}
	return db, err
}

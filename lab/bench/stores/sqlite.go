package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/sqlitelocker"
	_ "github.com/go-lockguard/guard/locker/sqlitelocker/sqlitedsn"
)

// startSQLite has a file in the temporary directory.
func startSQLite(ctx context.Context, p *place) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	p.ending(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "locks.db")
	db, err := openSQLite(file)
	if err != nil {
		return err
	}
	defer db.Close()
	p.open = func(int) (locker.Locker, func(), error) {
		db, err := openSQLite(file)
		if err != nil {
			return nil, nil, err
		}
		return sqlitelocker.New(db), func() { _ = db.Close() }, nil
	}
	return sqlitelocker.New(db).Migrate(ctx)
}

func openSQLite(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err == nil {
		db.SetMaxIdleConns(4)
	}
	return db, err
}

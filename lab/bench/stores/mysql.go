package main

import (
	"context"
	"database/sql"
	"strings"

	_ "github.com/go-sql-driver/mysql"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
	_ "github.com/go-lockguard/guard/locker/mysqllocker/mysqldsn"
)

func startMySQL(ctx context.Context, p *place) error {
	server, err := sqltest.StartMySQL("innodb-flush-log-at-trx-commit=1", "innodb-buffer-pool-size=128M",
		"max-connections=300")
	if err != nil {
		return err
	}
	p.ending(server.Close)
	dsn := strings.NewReplacer("mysql://", "", "@", "@tcp(", "/guard", ")/guard").Replace(server.URL)
	db, err := openMySQL(dsn, 25)
	if err != nil {
		return err
	}
	p.ending(func() { _ = db.Close() })
	if err := mysqllocker.New(db).Migrate(ctx); err != nil {
		return err
	}
	p.open = func(int) (locker.Locker, func(), error) {
		db, err := openMySQL(dsn, 4)
		if err != nil {
			return nil, nil, err
		}
		return mysqllocker.New(db), func() { _ = db.Close() }, nil
	}
	p.rival = &rival{"FOR UPDATE", func(c contest) (process, error) { return forUpdate(dsn, c.callers) }}
	return makeRows(ctx, db)
}

// makeRows makes the rows that FOR UPDATE locks.
func makeRows(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE rival (k VARBINARY(255) PRIMARY KEY) ENGINE = InnoDB")
	for _, c := range contests {
		for p := range c.processes {
			for caller := range c.callers {
				if err == nil {
					_, err = db.ExecContext(ctx, "INSERT IGNORE INTO rival VALUES (?)", c.key(p, caller))
				}
			}
		}
	}
	return err
}

// openMySQL returns a handle that keeps so many connections.
func openMySQL(dsn string, conns int) (*sql.DB, error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// forUpdate is what most services write: a transaction that begins with the
// lock of a row, and is open while the section runs.
func forUpdate(dsn string, callers int) (process, error) {
	db, err := openMySQL(dsn, callers)
	if err != nil {
		return process{}, err
	}
	return process{
		func(ctx context.Context, key string, f func(limit int)) error { return lockRow(ctx, db, key, f) },
		func() { _ = db.Close() },
	}, nil
}

func lockRow(ctx context.Context, db *sql.DB, key string, f func(limit int)) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var k []byte
	if err := tx.QueryRowContext(ctx, "SELECT k FROM rival WHERE k = ? FOR UPDATE", key).Scan(&k); err != nil {
		return err
	}
	f(1)
	return tx.Commit()
}

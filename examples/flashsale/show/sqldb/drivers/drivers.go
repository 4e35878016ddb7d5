// Package drivers opens SQLite, PostgreSQL and MySQL for package sqldb. It is
// imported for its side effect.
package drivers

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver of an SQLite book

	"github.com/go-lockguard/guard/examples/flashsale/show/sqldb"
	"github.com/go-lockguard/guard/fence/sqlfence"
)

func init() { sqldb.Parse = parse }

// parse reads the address of SQLite, PostgreSQL or MySQL.
func parse(store string) (sqldb.Database, error) {
	if path, ok := strings.CutPrefix(store, "sqlite"); ok && (path == "" || strings.HasPrefix(path, ":")) {
		return sqliteStore(strings.TrimPrefix(path, ":")), nil
	}
	u, err := url.Parse(store)
	if err != nil || u.Host == "" {
		// Not err, which has all of it: a password too.
		return sqldb.Database{}, errors.New("want sqlite, postgres://user:password@host:port/database or " +
			"mysql://user:password@host:port/database")
	}
	switch u.Scheme {
	case "postgres", "postgresql":
		return postgresStore(store, u)
	case "mysql":
		return mysqlStore(u)
	}
	return sqldb.Database{}, fmt.Errorf("the scheme is %q, want sqlite, postgres or mysql", u.Scheme)
}

// sqliteStore is a file; without a path it is yet to be named.
func sqliteStore(path string) sqldb.Database {
	name := "SQLite in a file"
	return sqldb.Database{Dialect: sqlfence.SQLite, Name: name, Open: func() (*sql.DB, error) {
		dsn := "file:" + (&url.URL{Path: path}).EscapedPath() +
			"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)"
		db, err := sql.Open("sqlite", dsn)
		if err == nil {
			db.SetMaxOpenConns(1) // one writer at a time: the others of this process wait here, not in busy_timeout
		}
		return db, err
	}}
}

func postgresStore(store string, u *url.URL) (sqldb.Database, error) {
	cfg, err := pgx.ParseConfig(store)
	if err != nil {
		return sqldb.Database{}, errors.New("this is no URL of PostgreSQL: look at its port and parameters")
	}
	open := func() (*sql.DB, error) { return pooled(stdlib.OpenDB(*cfg)), nil }
	return sqldb.Database{Dialect: sqlfence.PostgreSQL, Name: "PostgreSQL at " + u.Host + u.Path, Open: open}, nil
}

func mysqlStore(u *url.URL) (sqldb.Database, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if u.Port() == "" {
		cfg.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	if tls := u.Query().Get("tls"); tls != "" {
		cfg.TLSConfig = tls
	}
	if cfg.DBName == "" {
		return sqldb.Database{}, errors.New("no database: want mysql://user:password@host:port/database")
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return sqldb.Database{}, fmt.Errorf("mysql://: %w", err)
	}
	open := func() (*sql.DB, error) { return pooled(sql.OpenDB(connector)), nil }
	return sqldb.Database{Dialect: sqlfence.MySQL, Name: "MySQL at " + cfg.Addr + u.Path, Open: open}, nil
}

// pooled bounds the connections of one process: all instances together must
// stay below the hundred or so that servers allow.
func pooled(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	db.SetConnMaxIdleTime(time.Minute)
	return db
}

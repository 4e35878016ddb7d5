//go:build unix

// Command storm runs processes that want the same keys of PostgreSQL, while it
// kills, stops and cuts off the server and processes, and with -pooler
// pgbouncer between them. It reports each section that ran beside another on
// its key, each fencing token that fell, and keys that stay.
//
//	go -C locker/postgreslocker run ./storm -for 60s
//	go -C locker/postgreslocker run ./storm -for 60s -pooler listen
//	go -C locker/postgreslocker run ./storm -for 60s -pooler poll
//	go -C locker/postgreslocker run ./storm -for 60s -modes
//	go -C locker/postgreslocker run ./storm -for 60s -once
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/sqltest/sqlstorm"
	"github.com/go-lockguard/guard/internal/storm"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

func main() {
	if storm.Process(open) {
		return
	}
	var s storm.Settings
	s.Flags()
	s.RoleFlags()
	pooler := flag.String("pooler", "", "listen or poll: go through pgbouncer in transaction mode")
	flag.Parse()
	if err := run(context.Background(), s, *pooler); err != nil { //nolint:forbidigo // of the program
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// open opens the store of a process: its address, how it listens, and the
// direct address.
func open(addresses []string) (locker.Locker, error) {
	pool, err := pgxpool.New(context.Background(), addresses[0]) //nolint:forbidigo // of the process
	if err != nil {
		return nil, err
	}
	var opts []postgreslocker.Option
	switch addresses[1] {
	case "listen":
		opts = append(opts, postgreslocker.WithPooler(), postgreslocker.WithListen(addresses[2]))
	case "poll":
		opts = append(opts, postgreslocker.WithPooler())
	}
	return postgreslocker.New(pool, opts...), nil
}

func run(ctx context.Context, s storm.Settings, pooler string) error {
	server, err := sqltest.StartPostgreSQL("fsync=on")
	if err != nil {
		return err
	}
	defer server.Close()
	place := sqlstorm.Place{
		Server: server,
		Addresses: func(pipe string) []string {
			return []string{"postgres://guard@" + pipe + "/postgres?sslmode=disable", pooler, server.URL}
		},
		Left: func(ctx context.Context) ([]string, error) { return left(ctx, server.URL) },
	}
	if pooler != "" {
		if place.Pooler, err = sqltest.StartPgBouncer(server, "server_login_retry=1"); err != nil {
			return err
		}
		defer place.Pooler.Close()
	}
	pool, err := pgxpool.New(ctx, server.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgreslocker.New(pool).Migrate(ctx); err != nil {
		return err
	}
	r, err := sqlstorm.Run(ctx, s, place, os.Stderr)
	fmt.Fprintln(os.Stdout, r)
	if err == nil && r.Failed() {
		err = errors.New("a promise was broken, or nothing was done")
	}
	return err
}

// left returns the keys that somebody owns or may be granted.
func left(ctx context.Context, dsn string) ([]string, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	const now = "(extract(epoch FROM clock_timestamp()) * 1000000)"
	rows, err := conn.Query(ctx, strings.ReplaceAll(`SELECT convert_from(key, 'UTF8') FROM guard_lease AS l
WHERE owner <> '' AND ends > NOW OR EXISTS (
  SELECT FROM jsonb_array_elements(queue) AS e WHERE (e ->> 's')::bigint > NOW - 2000000)`, "NOW", now))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

func startPostgres(ctx context.Context, p *place) error {
	server, err := sqltest.StartPostgreSQL("fsync=on", "shared_buffers=128MB", "max_connections=300")
	if err != nil {
		return err
	}
	p.ending(server.Close)
	pool, err := openPool(ctx, server.URL, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgreslocker.New(pool).Migrate(ctx); err != nil {
		return err
	}
	p.open = func(callers int) (locker.Locker, func(), error) {
		pool, err := openPool(ctx, server.URL, callers) // as many as pg_advisory_xact_lock keeps busy
		if err != nil {
			return nil, nil, err
		}
		return postgreslocker.New(pool), pool.Close, nil
	}
	p.rival = &rival{"pg_advisory_xact_lock", func(c contest) (process, error) {
		return useAdvisory(ctx, server.URL, c.callers)
	}}
	return nil
}

func openPool(ctx context.Context, dsn string, conns int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(conns)
	return pgxpool.NewWithConfig(ctx, config)
}

// useAdvisory is what most services write: a transaction that begins with the
// lock, and is open while the section runs.
func useAdvisory(ctx context.Context, dsn string, callers int) (process, error) {
	pool, err := openPool(ctx, dsn, callers)
	if err != nil {
		return process{}, err
	}
	return process{func(ctx context.Context, key string, f func(limit int)) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", key); err != nil {
				return err
			}
			f(1)
			return nil
		})
	}, pool.Close}, nil
}

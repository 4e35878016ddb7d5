//go:build unix

package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

func startPostgres(ctx context.Context, p *Place) error {
	server, err := sqltest.StartPostgreSQL("fsync=on")
	if err != nil {
		return err
	}
	p.ending(server.Close)
	var pooler *sqltest.Server
	if p.pooler != "" {
		if pooler, err = sqltest.StartPgBouncer(server, "server_login_retry=1"); err != nil {
			return err
		}
		p.ending(pooler.Close)
	}
	if err := p.at(ctx, server.URL); err != nil {
		return err
	}
	p.Addresses = []string{"", p.pooler, server.URL}
	return p.behind(ctx, server, pooler, func(pipe string) string {
		return "postgres://guard@" + pipe + "/postgres?sslmode=disable"
	})
}

// openPostgres opens the store by its address, how it listens, and the direct
// address.
func openPostgres(addresses []string) (locker.Locker, func(), error) {
	pool, err := pgxpool.New(context.Background(), addresses[0])
	if err != nil {
		return nil, nil, err
	}
	var opts []postgreslocker.Option
	switch addresses[1] {
	case "listen":
		opts = append(opts, postgreslocker.WithPooler(), postgreslocker.WithListen(addresses[2]))
	case "poll":
		opts = append(opts, postgreslocker.WithPooler())
	}
	return postgreslocker.New(pool, opts...), pool.Close, nil
}

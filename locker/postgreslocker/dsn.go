package postgreslocker

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

func init() {
	locker.RegisterDSN("postgres", fromDSN)
	locker.RegisterDSN("postgresql", fromDSN)
}

// fromDSN serves [locker.FromDSN]. The address is the one of pgx.
func fromDSN(dsn string) (locker.Locker, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil { // pgx's error may show a password
		return nil, invalid("the address is wrong: want postgres://user:password@host:port/database")
	}
	return newLocker(config), nil
}

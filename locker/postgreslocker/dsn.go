package postgreslocker

import (
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

func init() {
	locker.RegisterDSN("postgres", fromDSN)
	locker.RegisterDSN("postgresql", fromDSN)
}

// fromDSN serves [locker.FromDSN]. The address is the one of pgx, with one more
// parameter: pooler=true is WithPooler.
func fromDSN(dsn string) (locker.Locker, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil { // pgx's error may show a password
		return nil, invalid("the address is wrong: want postgres://user:password@host:port/database")
	}
	var opts []Option
	params := config.ConnConfig.RuntimeParams // where pgx leaves what it does not know
	if text, ok := params["pooler"]; ok {
		delete(params, "pooler")
		pooler, err := strconv.ParseBool(text)
		if err != nil {
			return nil, invalid("the address is wrong: want pooler=true or pooler=false")
		}
		if pooler {
			opts = append(opts, WithPooler())
		}
	}
	return newLocker(config, opts...), nil
}

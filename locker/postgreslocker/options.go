package postgreslocker

import (
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

// Option changes one setting of [New].
type Option func(*settings)

// settings are kept as they were given; prepare finds what is wrong.
type settings struct {
	table    string
	listen   string // "": the way of the pool
	pollOnly bool
	pooler   bool
	nilOpt   bool
}

// WithTable names the table, with its schema in front if it has one:
// "locks.guard_lease". The table of processes is named after it. Lockers
// exclude each other only in the same table. Default "guard_lease".
func WithTable(name string) Option { return func(s *settings) { s.table = name } }

// WithListen is the address of the server for the connection that listens, if
// the pool goes through a pooler. The connection needs a direct way. The
// address says all: BeforeConnect and AfterConnect of the pool are not called
// for it.
func WithListen(dsn string) Option { return func(s *settings) { s.listen = dsn } }

// WithPollOnly makes the locker look for its claims every 20 ms, by one request
// for all, and never listen.
func WithPollOnly() Option { return func(s *settings) { s.pollOnly = true } }

// WithPooler avoids what a pooler in transaction mode cannot do: prepared
// statements and, unless [WithListen] names a direct way, listening. The locker
// then polls as with [WithPollOnly].
func WithPooler() Option { return func(s *settings) { s.pooler = true } }

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

package postgreslocker_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

var (
	server *sqltest.Server // for all tests, from TestMain
	tables atomic.Int64
)

func TestMain(m *testing.M) {
	if process() {
		os.Exit(1)
	}
	var err error
	if server, err = sqltest.StartPostgreSQL(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// pair returns two lockers on a table of their own.
func pair(t *testing.T, opts ...postgreslocker.Option) (a, b *postgreslocker.Locker) {
	t.Helper()
	return pairOn(t, server.URL, opts...)
}

func pairOn(t *testing.T, dsn string, opts ...postgreslocker.Option) (a, b *postgreslocker.Locker) {
	t.Helper()
	opts = append(opts, postgreslocker.WithTable(fmt.Sprintf("lease_%d", tables.Add(1))))
	a, b = postgreslocker.New(poolTo(t, dsn), opts...), postgreslocker.New(poolTo(t, dsn), opts...)
	if err := a.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return poolTo(t, server.URL)
}

func poolTo(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestTheLockerKeepsItsPromises(t *testing.T) {
	pooler, err := sqltest.StartPgBouncer(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pooler.Close)
	type options []postgreslocker.Option
	for name, way := range map[string]struct {
		dsn string
		options
	}{
		"listens": {server.URL, nil},
		"listens beside pgbouncer": {
			pooler.URL, options{postgreslocker.WithPooler(), postgreslocker.WithListen(server.URL)},
		},
		"polls through pgbouncer": {
			pooler.URL, options{postgreslocker.WithPooler(), postgreslocker.WithPollOnly()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
				t.Helper()
				return pairOn(t, way.dsn, way.options...)
			})
		})
	}
}

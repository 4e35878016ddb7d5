//go:build unix

package postgreslocker_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/sqltest/sqlcrowd"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// process is the work of another process, if this is one.
func process() bool {
	return sqlcrowd.Process(func(dsn string) (locker.Locker, error) {
		pool, err := pgxpool.New(context.Background(), dsn)
		if err != nil {
			return nil, err
		}
		return postgreslocker.New(pool), nil
	})
}

func TestProcessesAreKilled(t *testing.T) {
	if err := postgreslocker.New(pool(t)).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	sqlcrowd.Test(t, server.URL)
}

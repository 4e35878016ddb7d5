//go:build unix

package mysqllocker_test

import (
	"database/sql"
	"testing"

	"github.com/go-lockguard/guard/internal/sqltest/sqlcrowd"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

// process is the work of another process, if this is one.
func process() bool {
	return sqlcrowd.Process(func(dsn string) (locker.Locker, error) {
		db, err := sql.Open("mysql", dsn)
		return mysqllocker.New(db), err
	})
}

func TestProcessesAreKilled(t *testing.T) {
	if err := mysqllocker.New(open(t)).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	sqlcrowd.Test(t, dsn)
}

//go:build unix

package sqlitelocker_test

import (
	"database/sql"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/sqltest/sqlcrowd"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/sqlitelocker"
)

func TestMain(m *testing.M) {
	if sqlcrowd.Process(func(dsn string) (locker.Locker, error) {
		db, err := sql.Open("sqlite", dsn)
		return sqlitelocker.New(db), err
	}) {
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func TestProcessesAreKilled(t *testing.T) {
	file := newFile(t)
	open(t, file)
	sqlcrowd.Test(t, dsn(file))
}

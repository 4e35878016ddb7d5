package postgreslocker_test

import (
	"context"
	"crypto/rand"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/sqltest/sqlcrowd"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// silent is a Waker that knows every claim.
type silent struct{ lockerkit.Deaf }

func claim(key string) *locker.Claim {
	return &locker.Claim{Key: key, Owner: rand.Text()[:locker.OwnerLen], TTL: 10 * time.Second}
}

// Instances that start together may run the SQL of Schema, as Migrate does.
func TestProcessesMayRunTheSchemaAtOnce(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		schema := postgreslocker.New(pool(t), postgreslocker.WithTable("at_once_"+strconv.Itoa(round))).Schema()
		sqlcrowd.AtOnce(t, func() (do func() error) {
			conn, err := pgx.Connect(t.Context(), server.URL)
			if err != nil {
				t.Fatal(err)
			}
			return func() error {
				defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
				_, err := conn.Exec(t.Context(), schema)
				return err
			}
		})
	}
}

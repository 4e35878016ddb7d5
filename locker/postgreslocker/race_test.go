package postgreslocker_test

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/internal/lockerkit"
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
	const rounds, instances = 5, 6
	for round := range rounds {
		schema := postgreslocker.New(pool(t), postgreslocker.WithTable("at_once_"+strconv.Itoa(round))).Schema()
		var conns []*pgx.Conn
		for range instances {
			conn, err := pgx.Connect(t.Context(), server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			conns = append(conns, conn)
		}
		var all sync.WaitGroup
		for _, conn := range conns {
			all.Go(func() {
				if _, err := conn.Exec(t.Context(), schema); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

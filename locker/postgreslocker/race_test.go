package postgreslocker_test

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// silent is a Waker that knows every claim.
type silent struct{}

func (silent) Granted(string, string, locker.Offer) bool { return true }
func (silent) Wanted(string)                             {}
func (silent) Wake(string)                               {}
func (silent) WakeAll()                                  {}

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

// A claim that is queued in the moment of a release is there after it. Without
// the row lock of the release, the update overwrites it.
func TestAClaimQueuedInTheMomentOfAReleaseStays(t *testing.T) {
	a, b := pair(t)
	for _, l := range []locker.Locker{a, b} {
		if err := l.Open(silent{}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close(context.WithoutCancel(t.Context())) }()
	}
	for range 300 {
		owner, first, second := claim("k"), claim("k"), claim("k")
		if x, err := a.Acquire(t.Context(), owner, locker.Try{}); err != nil || !x.Acquired {
			t.Fatal(x, err)
		}
		if x, err := b.Acquire(t.Context(), first, locker.Try{Wait: true}); err != nil || !x.Queued {
			t.Fatal(x, err)
		}
		var release sync.WaitGroup
		release.Go(func() { _, _ = a.Release(t.Context(), owner, nil) })
		x, err := b.Acquire(t.Context(), second, locker.Try{Wait: true})
		release.Wait()
		if err != nil || !x.Queued {
			t.Fatalf("the second: %+v, %v", x, err)
		}
		x, err = b.Acquire(t.Context(), second, locker.Try{Wait: true, Queued: true})
		if err != nil || !x.Queued {
			t.Fatalf("the second left the queue with the release: %+v, %v (law 2)", x, err)
		}
		for _, c := range []*locker.Claim{second, first} {
			if _, err := b.Release(t.Context(), c, nil); err != nil && c == first {
				t.Fatal(err)
			}
		}
	}
}

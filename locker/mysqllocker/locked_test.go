package mysqllocker_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

// A request that gave up must not wait on in the server.
func TestAForeignTransactionDoesNotFillTheServer(t *testing.T) {
	server, err := sqltest.StartMySQL()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	admin := openAt(t, "root", server.Addr())
	exec(t, admin, mysqllocker.New(admin).Schema())
	for name, l := range map[string]*mysqllocker.Locker{
		"the caller's pool": mysqllocker.New(openAt(t, "guard", server.Addr())),
		"an address":        byURLOf(t, server.URL),
	} {
		t.Run(name, func(t *testing.T) { doesNotFill(t, l, admin) })
	}
}

// byURLOf returns the locker of an address.
func byURLOf(t *testing.T, address string) *mysqllocker.Locker {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("guard")
	l, err := locker.FromDSN(u.String())
	if err != nil {
		t.Fatal(err)
	}
	return l.(*mysqllocker.Locker)
}

func doesNotFill(t *testing.T, l *mysqllocker.Locker, admin *sql.DB) {
	t.Helper()
	const keys, rounds, most = 8, 14, 10 // connections: four, and those that end within a second
	g := testguard.New(t, l, guard.WithTTL(10*time.Second), guard.WithMaxWait(300*time.Millisecond))
	section := func(context.Context) error { return nil }
	patient := g.With(guard.WithMaxWait(time.Minute))
	for i := range keys {
		if err := patient.Do(t.Context(), strconv.Itoa(i), section); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := admin.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	exec(t, tx, "UPDATE guard_lease SET version = version + 0, written = written + 1")
	highest := 0
	for range rounds {
		var all sync.WaitGroup
		for i := range 2 * keys { // half of the keys are new
			all.Go(func() {
				if err := g.Do(t.Context(), strconv.Itoa(i), section); !errors.Is(err, guard.ErrUnavailable) {
					t.Errorf("%v, want ErrUnavailable", err)
				}
			})
		}
		all.Wait()
		var n int
		if err := admin.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'guard'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		highest = max(highest, n)
	}
	if highest > most {
		t.Errorf("up to %d connections after %d rounds, want at most %d", highest, rounds, most)
	}
	t.Logf("at most %d connections", highest)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := g.With(guard.WithMaxWait(time.Minute)).Do(t.Context(), "1", section); err != nil {
		t.Error(err)
	}
}

// Whoever locks a row of the table must not end the leases in the other rows.
func TestALockedRowDoesNotKeepOtherLeasesFromBeingRenewed(t *testing.T) {
	db := open(t)
	l := mysqllocker.New(db, mysqllocker.WithTable("lease_locked"))
	if err := l.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	testguard.New(t, l)
	claims := []*locker.Claim{
		{Key: "locked", TTL: 10 * time.Second},
		{Key: "alone", TTL: 9 * time.Second},
		{Key: "shared", TTL: 10 * time.Second, Limit: locker.NoLimit},
	}
	for _, c := range claims {
		c.Owner = rand.Text()[:locker.OwnerLen]
		if a, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil || !a.Acquired {
			t.Fatal(a, err)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	exec(t, tx, "UPDATE lease_locked SET version = version + 1 WHERE k = 'locked'")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	l.Renew(ctx, claims, func(i int, err error) {
		locked := claims[i].Key == "locked"
		if errors.Is(err, locker.ErrUnavailable) != locked || !locked && err != nil {
			t.Errorf("%s: %v", claims[i].Key, err)
		}
	})
}

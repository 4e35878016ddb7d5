package postgreslocker_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/locker"
)

// Renewals of very many leases that take long must not keep a call from a
// connection: that would look as if the server were silent.
func TestAnAcquireDoesNotWaitForRenewals(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	open(t, a, silent{})
	claims := make([]*locker.Claim, 5000)
	for i := range claims {
		claims[i] = claim("k" + strconv.Itoa(i))
		if claims[i].TTL = time.Hour; i%1000 == 0 {
			acquire(t, a, claims[i], locker.Try{})
		}
	}
	rollback := locks(t, "SELECT FROM "+tableOf(a)+" FOR UPDATE")
	var renewal sync.WaitGroup
	defer renewal.Wait()
	defer rollback()
	renewal.Go(func() { a.Renew(t.Context(), claims, func(int, error) {}) })
	others := pool(t) // a transaction sees the activity of one moment
	until(t, "the requests of renewals wait for the rows", func() bool {
		var waiting int
		err := others.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity AS a "+
			"WHERE wait_event_type = 'Lock' AND "+
			"EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = a.pid AND l.relation = $1::text::regclass)",
			tableOf(a)).Scan(&waiting)
		return err == nil && waiting >= 4
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range 100 {
		if x, err := a.Acquire(ctx, claim("free"+strconv.Itoa(i)), locker.Try{}); err != nil || !x.Acquired {
			t.Fatalf("beside renewals that wait: %+v, %v", x, err)
		}
	}
}

// Whoever locks a row of the table must not end the leases in the other rows.
func TestALockedRowDoesNotKeepOtherLeasesFromBeingRenewed(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	open(t, a, silent{})
	claims := []*locker.Claim{claim("locked"), claim("free"), claim("locked share"), claim("share")}
	for i, c := range claims {
		if i >= 2 {
			c.Limit = locker.NoLimit
		}
		acquire(t, a, c, locker.Try{})
	}
	rollback := locks(t, "SELECT FROM "+tableOf(a)+" WHERE k LIKE 'locked%' FOR UPDATE")
	defer rollback()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	a.Renew(ctx, claims, func(i int, err error) {
		if locked := i%2 == 0; errors.Is(err, locker.ErrUnavailable) != locked || !locked && err != nil {
			t.Errorf("%s: %v", claims[i].Key, err)
		}
	})
}

// locks executes a statement in a transaction that stays open until rollback.
func locks(t *testing.T, statement string) (rollback func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "BEGIN; "+statement); err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.Close(context.WithoutCancel(t.Context())) }
}

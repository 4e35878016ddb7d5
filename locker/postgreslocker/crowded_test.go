package postgreslocker_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
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
	testguard.Eventually(t, "the requests of renewals wait for the rows", func() bool {
		var waiting int
		err := others.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity AS a "+
			"WHERE wait_event_type = 'Lock' AND "+
			"EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = a.pid AND l.relation = $1::text::regclass)",
			tableOf(a)).Scan(&waiting)
		return err == nil && waiting >= 4
	})
	ctx, cancel := context.WithTimeout(t.Context(), testguard.Patience)
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

// A change whose row is locked waits for it behind the others, and is done.
func TestChangesWaitForTheirRowsBehindTheOthers(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	open(t, a, silent{})
	change := func(key string, version int64) *rowlocker.Change {
		row := rowlocker.Row{Key: key, Version: version, Value: []byte("o/{}"), KeepFor: time.Hour}
		return &rowlocker.Change{Rows: []rowlocker.Row{row}}
	}
	free, locked, both := change("free", 0), change("locked", 0), change("both", 0)
	if err := a.Swap(t.Context(), free, locked, both); err != nil || !free.Done || !locked.Done || !both.Done {
		t.Fatal(err, free, locked, both)
	}
	rollback := locks(t, "SELECT FROM "+tableOf(a)+" WHERE k IN ('locked', 'both') FOR UPDATE")
	defer rollback()
	free, locked = change("free", free.Version), change("locked", locked.Version)
	both = change("both", both.Version)
	both.Rows = append(both.Rows, change("record", rowlocker.Any).Rows...)
	refused := change("gone", 1)
	refused.Rows = append(refused.Rows, change("another record", rowlocker.Any).Rows...)
	var swap sync.WaitGroup
	defer swap.Wait()
	swap.Go(func() {
		if err := a.Swap(t.Context(), both, refused, locked, free); err != nil {
			t.Error(err)
		}
	})
	others := pool(t)
	testguard.Eventually(t, "the one whose row is free is done", func() bool {
		var done bool
		err := others.QueryRow(t.Context(), "SELECT version > $1 FROM "+tableOf(a)+" WHERE k = 'free'",
			free.Rows[0].Version).Scan(&done)
		return err == nil && done
	})
	rollback()
	swap.Wait()
	if !free.Done || !locked.Done || !both.Done || both.Version == 0 {
		t.Errorf("%+v, %+v, %+v, want them done", free, locked, both)
	}
	if refused.Done || refused.Err != nil || len(refused.Current) != 2 || refused.Current[0].Version != 0 {
		t.Errorf("%+v, want it refused, because its row is gone", refused)
	}
}

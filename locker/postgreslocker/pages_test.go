package postgreslocker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// The program of docs/stores.md.

func inPostgreSQL(ctx context.Context, address, sku string, sell func(context.Context) error) error {
	pool, err := pgxpool.New(ctx, address) // postgres://app:secret@db/app
	if err != nil {
		return err
	}
	defer pool.Close()
	store := postgreslocker.New(pool)
	if err := store.Migrate(ctx); err != nil { // or run store.Schema() in your migrations
		return err
	}
	g, err := guard.New(store)
	if err != nil {
		return err
	}
	defer g.Close(ctx) // before the pool
	return g.Do(ctx, guard.Key("stock", sku), sell)
}

func TestTheProgramOfThePageRuns(t *testing.T) {
	sold := false
	sell := func(context.Context) error {
		sold = true
		return nil
	}
	if err := inPostgreSQL(t.Context(), server.URL, "42", sell); err != nil || !sold {
		t.Errorf("%v, sold: %v", err, sold)
	}
}

// The two deploys of docs/migrating.md.

func withAdvisoryLock(
	ctx context.Context, pool *pgxpool.Pool, sku string, deduct func(context.Context, string) error,
) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// PostgreSQL: without lock_timeout it waits until ctx ends.
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "lock:sku:"+sku)
		if err != nil {
			return err
		}
		return deduct(ctx, sku) // a connection and a transaction are taken all the while
	})
}

func bothLocks(ctx context.Context, g *guard.Guard, sku string, old func(context.Context, string) error) error {
	return g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
		return old(ctx, sku) // takes the old lock, then deducts
	})
}

// In the first deploy, old and new instances exclude each other.
func TestBothLocksExcludeTheOldCode(t *testing.T) {
	g := guards(t)[0]
	p := pool(t)
	var inside, sections atomic.Int64
	deduct := func(context.Context, string) error {
		if inside.Add(1) > 1 {
			t.Error("two are in the section")
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
		sections.Add(1)
		return nil
	}
	old := func(ctx context.Context, sku string) error { return withAdvisoryLock(ctx, p, sku, deduct) }
	ends := make(chan error)
	const callers, each = 3, 10
	for _, call := range []func() error{
		func() error { return old(t.Context(), "42") },
		func() error { return bothLocks(t.Context(), g, "42", old) },
	} {
		for range callers {
			go func() {
				for range each {
					if err := call(); err != nil {
						ends <- err
						return
					}
				}
				ends <- nil
			}()
		}
	}
	for range 2 * callers {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if n := sections.Load(); n != 2*callers*each {
		t.Errorf("%d sections, want %d", n, 2*callers*each)
	}
}

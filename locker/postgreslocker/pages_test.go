package postgreslocker_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest/sqlcrowd"
	"github.com/go-lockguard/guard/internal/testguard"
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
	l, _ := pair(t)
	g, p := testguard.Patient(t, l), pool(t)
	sqlcrowd.Exclude(t, func(ctx context.Context, deduct func(context.Context, string) error) error {
		return withAdvisoryLock(ctx, p, "42", deduct)
	}, func(ctx context.Context, deduct func(context.Context, string) error) error {
		return bothLocks(ctx, g, "42", func(ctx context.Context, sku string) error {
			return withAdvisoryLock(ctx, p, sku, deduct)
		})
	})
}

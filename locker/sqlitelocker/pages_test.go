package sqlitelocker_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	_ "github.com/go-lockguard/guard/locker/sqlitelocker/sqlitedsn"
)

// The program of docs/stores.md.

func inSQLite(ctx context.Context, address, sku string, sell func(context.Context) error) error {
	l, err := locker.FromDSN(address) // sqlite:/var/lib/app/locks.db
	if err != nil {
		return err
	}
	if err := l.(locker.Migrator).Migrate(ctx); err != nil {
		return err
	}
	g, err := guard.New(l)
	if err != nil {
		return err
	}
	defer g.Close(ctx)
	return g.Do(ctx, guard.Key("stock", sku), sell)
}

func TestTheProgramOfThePageRuns(t *testing.T) {
	sold := false
	sell := func(context.Context) error {
		sold = true
		return nil
	}
	if err := inSQLite(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "locks.db"), "42", sell); err != nil || !sold {
		t.Errorf("%v, sold: %v", err, sold)
	}
}

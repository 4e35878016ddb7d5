//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"

	_ "github.com/go-lockguard/guard/locker/sqlitelocker/sqlitedsn"
)

// startSQLite has no server. So only processes have faults.
func startSQLite(ctx context.Context, p *Place) error {
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		return err
	}
	p.ending(func() { _ = os.RemoveAll(dir) })
	return p.at(ctx, "sqlite:"+filepath.Join(dir, "locks.db"))
}

//go:build unix

// Command storm runs processes that want the same keys of a SQLite file, while
// it kills and stops processes. It reports each section that ran beside another
// on its key, each fencing token that fell, and keys that stay.
//
//	go -C locker/sqlitelocker run ./storm -for 60s
//	go -C locker/sqlitelocker run ./storm -for 60s -modes
//	go -C locker/sqlitelocker run ./storm -for 60s -once
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/storm"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/sqlitelocker"
	_ "github.com/go-lockguard/guard/locker/sqlitelocker/sqlitedsn"
)

func main() {
	if storm.Process(open) {
		return
	}
	var s storm.Settings
	s.Flags()
	s.RoleFlags()
	flag.Parse()
	if err := run(context.Background(), s); err != nil { //nolint:forbidigo // of the program
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// open opens the store of a process.
func open(addresses []string) (locker.Locker, error) { return locker.FromDSN(addresses[0]) }

func run(ctx context.Context, s storm.Settings) error {
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	addresses := []string{"sqlite:" + filepath.Join(dir, "locks.db")}
	own, err := open(addresses)
	if err != nil {
		return err
	}
	if err := own.(*sqlitelocker.Locker).Migrate(ctx); err != nil {
		return err
	}
	g, err := guard.New(own)
	if err != nil {
		return err
	}
	defer func() { _ = g.Close(ctx) }()
	r, err := storm.Run(ctx, s, storm.Place{
		Addresses: addresses,
		Left:      func(ctx context.Context) ([]string, error) { return storm.Left(ctx, g) },
	}, os.Stderr)
	fmt.Fprintln(os.Stdout, r)
	if err == nil && r.Failed() {
		err = errors.New("a promise was broken, or nothing was done")
	}
	return err
}

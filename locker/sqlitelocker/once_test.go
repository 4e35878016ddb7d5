package sqlitelocker_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest/sqlfault"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/sqlitelocker"
)

func TestACallOfOnceWritesAsRarelyAsDo(t *testing.T) {
	file, fault := newFile(t), sqlfault.New()
	plain := open(t, file)
	db := sql.OpenDB(fault.Wrap(plain.Driver(), dsn(file)))
	t.Cleanup(func() { _ = db.Close() })
	g := testguard.Patient(t, sqlitelocker.New(db), guard.WithTTL(time.Minute))
	once := func(g *guard.Guard, key string) func() error {
		return func() error {
			echo := func(context.Context) (string, error) { return key, nil }
			got, err := guard.Once(t.Context(), g, key, time.Hour, echo)
			if err == nil && got != key {
				err = errors.New("the result is " + got)
			}
			return err
		}
	}
	nothing := func(context.Context) error { return nil }
	marked := g.With(guard.WithAtMostOnce())
	for _, c := range []struct {
		what string
		call func() error
		want int64
	}{
		{"Do", func() error { return g.Do(t.Context(), "k", nothing) }, 2},
		{"DoAll of 3 keys", func() error { return g.DoAll(t.Context(), []string{"a", "b", "c"}, nothing) }, 2},
		{"Once", once(g, "one"), 2},
		{"Once again", once(g, "one"), 0},
		{"Once, at most once", once(marked, "two"), 3},
		{"that again", once(marked, "two"), 0},
	} {
		before := fault.Writes()
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if n := fault.Writes() - before; n != c.want {
			t.Errorf("%s writes %d times, want %d", c.what, n, c.want)
		}
	}
}

func TestOnlyRowsThatNobodyUsesAreSwept(t *testing.T) {
	db := open(t, newFile(t))
	l := sqlitelocker.New(db)
	const rows = `INSERT INTO guard_lease (k, version, written, ends, value) VALUES
		(x'61', 1, 1, 1, '/{}'), (x'62', 1, 1, 2, '/{}'), (x'63', 1, 1, 9000000000000000000, '/{}')`
	if _, err := db.ExecContext(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if more, err := l.Sweep(t.Context()); more || err != nil {
		t.Fatalf("%v, %v", more, err)
	}
	var left string
	const keys = "SELECT group_concat(CAST(k AS TEXT), '') FROM guard_lease ORDER BY k"
	err := db.QueryRowContext(t.Context(), keys).Scan(&left)
	if err != nil || left != "c" {
		t.Errorf("%q are left, %v; want the row that means something", left, err)
	}
}

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/sqlfence"
)

// wrong are checks that are easily written by hand. Each names the databases
// where it is wrong and the check that catches it.
var wrong = map[string]struct {
	variant  variant
	on       string
	caughtBy func(ctx context.Context, s subject) error
}{
	"nothing is checked":                  {noCheck, "PostgreSQL MariaDB", concurrentWriters},
	"the same token is refused":           {refuseSame, "PostgreSQL MariaDB SQLite", risingTokens},
	"the lower token is stored":           {storeLower, "PostgreSQL MariaDB SQLite", commitRefused},
	"looks before it locks":               {lookFirst, "PostgreSQL MariaDB", waits},
	"checks outside the transaction":      {outside, "PostgreSQL MariaDB", rollBack},
	"goes by the rows affected":           {rowsAffected, "MariaDB", risingTokens},
	"a column that takes a for A":         {caseless, "MariaDB", ownFences},
	"a table without transactions":        {noTransactions, "MariaDB", rollBack},
	"reads the token from a snapshot":     {snapshotRead, "MariaDB", readFirst},
	"makes the row in a step of its own":  {insertLater, "PostgreSQL", concurrentFirst},
	"compares tokens as text":             {asText, "PostgreSQL MariaDB SQLite", risingTokens},
	"a key is cut where the column ends":  {cutKey, "PostgreSQL MariaDB SQLite", ownFences},
	"a token goes through a float":        {throughFloat, "PostgreSQL MariaDB SQLite", risingTokens},
	"an absent token is taken for lowest": {noToken, "PostgreSQL MariaDB SQLite", invalid},
}

func TestWrongVariantsAreCaught(t *testing.T) {
	for name, w := range wrong {
		for _, d := range databases {
			if !strings.Contains(w.on, d.name) {
				continue
			}
			t.Run(d.name+"/"+name, func(t *testing.T) {
				var err error
				for range 10 { // some are wrong only if two meet by chance
					if err = w.caughtBy(t.Context(), create(t, w.variant, d)); err != nil {
						break
					}
				}
				if err == nil {
					t.Error("it has passed")
				}
				t.Logf("caught: %v", err)
			})
		}
	}
}

func param(d database, n int) string {
	if d.dialect == sqlfence.PostgreSQL {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

// changed is package sqlfence with another check.
func changed(d database, table string, check func(s subject, ctx context.Context, tx *sql.Tx, key string,
	token uint64) error,
) subject {
	s := ours(d, table)
	s.check = func(ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		return check(s, ctx, tx, key, token)
	}
	return s
}

func (s subject) real(ctx context.Context, tx *sql.Tx, key string, token uint64) error {
	return ours(s.database, s.table).check(ctx, tx, key, token)
}

// queryer is a transaction, or a database without one.
type queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// stored reads the token at key. It returns 0 if there is none.
func (s subject) stored(ctx context.Context, q queryer, key string) (newest uint64, err error) {
	err = q.QueryRowContext(ctx, "SELECT token FROM "+s.table+" WHERE name = "+param(s.database, 1), key).Scan(&newest)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return newest, err
}

// store writes the token, whether or not it is higher.
func (s subject) store(ctx context.Context, q queryer, key string, token uint64) error {
	upsert := "ON CONFLICT (name) DO UPDATE SET token = EXCLUDED.token"
	if s.dialect == sqlfence.MySQL {
		upsert = "ON DUPLICATE KEY UPDATE token = VALUES(token)"
	}
	_, err := q.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (name, token) VALUES (%s, %s) %s",
		s.table, param(s.database, 1), param(s.database, 2), upsert), key, int64(token))
	return err
}

func noCheck(d database, table string) subject {
	return changed(d, table, func(subject, context.Context, *sql.Tx, string, uint64) error { return nil })
}

func refuseSame(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		if newest, err := s.stored(ctx, tx, key); err != nil || newest == token {
			return errors.Join(err, &fence.LateWriteError{Token: token, Newest: newest})
		}
		return s.real(ctx, tx, key, token)
	})
}

func storeLower(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		return errors.Join(s.real(ctx, tx, key, token), s.store(ctx, tx, key, token))
	})
}

func lookFirst(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		return s.lookAndStore(ctx, tx, key, token)
	})
}

func (s subject) lookAndStore(ctx context.Context, q queryer, key string, token uint64) error {
	newest, err := s.stored(ctx, q, key)
	if err != nil {
		return err
	}
	if newest > token {
		return &fence.LateWriteError{Token: token, Newest: newest}
	}
	return s.store(ctx, q, key, token)
}

func outside(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, _ *sql.Tx, key string, token uint64) error {
		return s.lookAndStore(ctx, s.db, key, token)
	})
}

func rowsAffected(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		res, err := tx.ExecContext(ctx, "INSERT INTO "+s.table+" (name, token) VALUES (?, ?) "+
			"ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)", key, int64(token), int64(token))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			newest, _ := s.stored(ctx, tx, key)
			return errors.Join(err, &fence.LateWriteError{Token: token, Newest: newest})
		}
		return nil
	})
}

func caseless(d database, table string) subject {
	s := ours(d, table)
	s.schema = strings.Replace(s.schema, "VARBINARY(255)", "VARCHAR(255)", 1)
	return s
}

func noTransactions(d database, table string) subject {
	s := ours(d, table)
	s.schema = strings.Replace(s.schema, "InnoDB", "MyISAM", 1)
	return s
}

func snapshotRead(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+s.table+" (name, token) VALUES (?, ?) "+
			"ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)", key, int64(token), int64(token)); err != nil {
			return err
		}
		newest, err := s.stored(ctx, tx, key)
		if newest > token {
			return &fence.LateWriteError{Token: token, Newest: newest}
		}
		return err
	})
}

func insertLater(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		var n uint64
		err := tx.QueryRowContext(ctx, "SELECT token FROM "+s.table+" WHERE name = $1 FOR UPDATE", key).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = tx.ExecContext(ctx, "INSERT INTO "+s.table+" (name, token) VALUES ($1, $2)", key, int64(token))
			return err
		}
		return errors.Join(err, s.real(ctx, tx, key, token))
	})
}

func asText(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		newest, err := s.stored(ctx, tx, key)
		if err != nil || (newest > 0 && strconv.FormatUint(token, 10) < strconv.FormatUint(newest, 10)) {
			return errors.Join(err, &fence.LateWriteError{Token: token, Newest: newest})
		}
		return s.store(ctx, tx, key, token)
	})
}

func cutKey(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		return s.real(ctx, tx, key[:min(len(key), 254)], token)
	})
}

func throughFloat(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		return s.real(ctx, tx, key, uint64(float64(token)))
	})
}

func noToken(d database, table string) subject {
	return changed(d, table, func(s subject, ctx context.Context, tx *sql.Tx, key string, token uint64) error {
		return s.real(ctx, tx, key, max(token, 1))
	})
}

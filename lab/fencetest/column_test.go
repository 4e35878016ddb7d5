package fencetest

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/go-lockguard/guard/fence/sqlfence"
)

// This is the recipe of package sqlfence for data that is one row.
func TestATokenInAColumnOfTheRowRefusesLateWrites(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			table := createColumn(t, d)
			update := fmt.Sprintf("UPDATE %s SET n = n - 1, fence = ? WHERE sku = ? AND fence <= ? AND n >= 1", table)
			if d.dialect == sqlfence.PostgreSQL {
				update = fmt.Sprintf("UPDATE %s SET n = n - 1, fence = $1 WHERE sku = $2 AND fence "+
					"<= $1 AND n >= 1", table)
			}
			for i, c := range []struct {
				token int64
				rows  int64
			}{{token, 1}, {token, 1}, {token - 1, 0}, {1 << 62, 1}, {1<<62 - 1, 0}, {1 << 62, 0}} {
				// the last finds nothing left
				args := []any{c.token, "lamp", c.token}
				if d.dialect == sqlfence.PostgreSQL {
					args = args[:2]
				}
				res, err := d.db.ExecContext(t.Context(), update, args...)
				if err != nil {
					t.Fatal(err)
				}
				if rows, err := res.RowsAffected(); rows != c.rows || err != nil {
					t.Errorf("write %d, token %d: %d rows, want %d: %v", i, c.token, rows, c.rows, err)
				}
			}
		})
	}
}

// This is the trap that the documentation of sqlfence warns of. Suppose that
// the second write of a turn changes nothing. By MySQL's default count it then
// looks like a late write.
func TestMySQLCountsRowsChangedUnlessItIsTold(t *testing.T) {
	for _, d := range databases {
		if d.dialect != sqlfence.MySQL {
			continue
		}
		table := createColumn(t, d)
		told, err := sql.Open("mysql", mariaDSN+"?clientFoundRows=true")
		if err != nil {
			t.Fatal(err)
		}
		defer told.Close()
		update := fmt.Sprintf("UPDATE %s SET n = 3, fence = ? WHERE sku = ? AND fence <= ?", table)
		if rows := affected(t, d.db, update); rows != 1 {
			t.Fatalf("the first write: %d rows", rows)
		}
		if rows := affected(t, d.db, update); rows != 0 {
			t.Errorf("the same again: %d rows, want the 0 that is documented", rows)
		}
		if rows := affected(t, told, update); rows != 1 {
			t.Errorf("with clientFoundRows: %d rows, want 1", rows)
		}
	}
}

func affected(t *testing.T, db *sql.DB, update string) int64 {
	t.Helper()
	res, err := db.ExecContext(t.Context(), update, token, "lamp", token)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := res.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// createColumn makes a table with a row of 3 lamps.
func createColumn(t *testing.T, d database) (table string) {
	t.Helper()
	table = fmt.Sprintf("stock_%s_%d", strings.ToLower(d.name), tables.Add(1))
	for _, statement := range []string{
		"CREATE TABLE " + table + " (sku VARCHAR(40) PRIMARY KEY, n INTEGER NOT NULL, fence BIGINT NOT NULL DEFAULT 0)",
		"INSERT INTO " + table + " (sku, n) VALUES ('lamp', 3)",
	} {
		if _, err := d.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

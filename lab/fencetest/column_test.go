package fencetest

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"github.com/go-lockguard/guard/fence/sqlfence"
)

// This is the trap that the documentation of sqlfence warns of. Suppose that
// the second write of a turn changes nothing. By MySQL's default count it then
// looks like a late write.
func TestMySQLCountsRowsChangedUnlessItIsTold(t *testing.T) {
	d := databases[slices.IndexFunc(databases, func(d database) bool { return d.dialect == sqlfence.MySQL })]
	table := fmt.Sprintf("stock_%d", tables.Add(1))
	for _, statement := range []string{
		"CREATE TABLE " + table + " (sku VARCHAR(40) PRIMARY KEY, n INTEGER NOT NULL, fence BIGINT NOT NULL DEFAULT 0)",
		"INSERT INTO " + table + " (sku, n) VALUES ('lamp', 3)",
	} {
		if _, err := d.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	told, err := sql.Open("mysql", mariaDSN+"?clientFoundRows=true")
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	update := fmt.Sprintf("UPDATE %s SET n = 3, fence = ? WHERE sku = ? AND fence <= ?", table)
	for i, write := range []struct {
		db   *sql.DB
		rows int64
	}{{d.db, 1}, {d.db, 0}, {told, 1}} {
		res, err := write.db.ExecContext(t.Context(), update, token, "lamp", token)
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := res.RowsAffected(); rows != write.rows || err != nil {
			t.Errorf("write %d: %d rows, %v, want the %d that are documented", i+1, rows, err, write.rows)
		}
	}
}

package postgreslocker_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/locker/rowlocker"
)

// A change that makes somebody an owner waits for the disk, whatever the
// session says. One that a crash may undo, or that is refused, does not.
func TestOnlyAFirmChangeIsOnTheDisk(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, c := range []struct {
		set, want string
		old       int64
		firm      bool
	}{
		{"off", "on", 0, true},
		{"local", "local", 0, true},
		{"on", "on", 0, true},
		{"on", "off", 0, false},
		{"on", "", 7, true},
	} {
		for rows := 1; rows <= 2; rows++ { // each number has its statement
			sql, args := a.Write(rows, c.old, c.firm)
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SET LOCAL synchronous_commit = "+c.set); err != nil {
				t.Fatal(err)
			}
			tag, err := tx.Exec(t.Context(), sql, args...)
			if err != nil || tag.RowsAffected() == 1 != (c.want != "") {
				t.Fatal(tag, err)
			}
			var got string
			if err := tx.QueryRow(t.Context(), `SELECT CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN ''
				ELSE current_setting('synchronous_commit') END`).Scan(&got); err != nil || got != c.want && rows == 1 {
				t.Errorf("%+v is committed with %s (%v)", c, got, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Planted: the server sees the arguments, and finds a plan for these that looks
// cheaper than the one which it has. Planning takes longer than the rest.
func TestAStatementThatWritesIsNotPlannedEachTime(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	row := func(old int64, drop ...rowlocker.Ticket) rowlocker.Row {
		return rowlocker.Row{Key: "k", Version: old, Value: []byte("o/{}"), KeepFor: time.Hour, Drop: drop}
	}
	for what, c := range map[string]*rowlocker.Change{
		"over": {Rows: []rowlocker.Row{row(7)}}, "into": {Rows: []rowlocker.Row{row(0)}},
		"told": {Rows: []rowlocker.Row{row(7, rowlocker.Ticket{Name: "t", Version: 1})}},
		"all":  {Rows: []rowlocker.Row{row(7), row(rowlocker.Any)}},
		"join": {Join: &rowlocker.Join{Key: "k", Ticket: rowlocker.Ticket{Name: "t"}, To: "i"}, Loose: true},
	} {
		sql, args := a.Statement(c)
		for range 20 {
			if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
				t.Fatal(what, err)
			}
		}
		var plans, kept int
		err := conn.QueryRow(t.Context(), "SELECT custom_plans, generic_plans FROM pg_prepared_statements "+
			"WHERE statement = $1", sql).Scan(&plans, &kept)
		if err != nil || plans != 5 || kept != 15 {
			t.Errorf("%s: %d plans, %d times the one that is kept (%v), "+
				"want 5, which the server always makes, and 15", what, plans, kept, err)
		}
	}
}

func TestRowsThatMeanNothingAreDeleted(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	open(t, a, silent{})
	p := pool(t)
	if _, err := p.Exec(t.Context(), "INSERT INTO "+tableOf(a)+` (k, version, written, ends, value, unaware)
		SELECT n::text::bytea, 1, 1, CASE WHEN n > 2 THEN 1 ELSE 4e18 END, '/{}', ''
		FROM generate_series(1, 2500) AS n`); err != nil {
		t.Fatal(err)
	}
	a.Sweep(t.Context())
	var left int
	if err := p.QueryRow(t.Context(), "SELECT count(*) FROM "+tableOf(a)).Scan(&left); err != nil || left != 2 {
		t.Errorf("%d rows, %v, want the 2 that have not ended", left, err)
	}
}

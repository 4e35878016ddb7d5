package postgreslocker_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
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
	for rows := 1; rows <= 2; rows++ {
		sql, args := a.Write(rows, 7, true)
		for range 20 {
			if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
				t.Fatal(err)
			}
		}
		var plans, kept int
		err := conn.QueryRow(t.Context(), "SELECT custom_plans, generic_plans FROM pg_prepared_statements "+
			"WHERE statement = $1", sql).Scan(&plans, &kept)
		if err != nil || plans != 5 || kept != 15 {
			t.Errorf("%d rows: %d plans, %d times the one that is kept (%v), "+
				"want 5, which the server always makes, and 15", rows, plans, kept, err)
		}
	}
}

func TestRowsThatMeanNothingAreDeleted(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	open(t, a, silent{})
	p := pool(t)
	if _, err := p.Exec(t.Context(), "INSERT INTO "+tableOf(a)+` (k, version, written, ends, value)
		SELECT n::text::bytea, 1, 1, CASE WHEN n > 2 THEN 1 ELSE 4e18 END, '/{}' FROM generate_series(1, 2500) AS n`); err != nil {
		t.Fatal(err)
	}
	a.Sweep(t.Context())
	var left int
	if err := p.QueryRow(t.Context(), "SELECT count(*) FROM "+tableOf(a)).Scan(&left); err != nil || left != 2 {
		t.Errorf("%d rows, %v, want the 2 that have not ended", left, err)
	}
}

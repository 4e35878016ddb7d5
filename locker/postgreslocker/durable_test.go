package postgreslocker_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/locker"
)

func TestARenewalIsOnTheDiskWhateverTheSessionSays(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	open(t, a, silent{})
	c := claim("k")
	acquire(t, a, c, locker.Try{})
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for set, want := range map[string]string{"off": "on", "local": "local", "on": "on"} {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SET LOCAL synchronous_commit = "+set); err != nil {
			t.Fatal(err)
		}
		tag, err := tx.Exec(t.Context(), a.RenewSQL(),
			[][]byte{[]byte("k")}, []string{c.Owner}, []int64{1e7}, "guard:x")
		if err != nil || tag.RowsAffected() != 1 {
			t.Fatal(tag, err)
		}
		var got string
		if err := tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got); err != nil || got != want {
			t.Errorf("a session with %s commits a renewal with %s, want %s (%v)", set, got, want, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

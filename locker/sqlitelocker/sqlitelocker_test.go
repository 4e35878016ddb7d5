package sqlitelocker_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/sqlitelocker"
)

// checked opens a locker on db and returns what Check finds.
func checked(t *testing.T, db *sql.DB) ([]locker.Finding, error) {
	t.Helper()
	l := sqlitelocker.New(db)
	g, err := guard.New(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(t.Context()) })
	return locker.Findings(l.Check(t.Context(), time.Minute))
}

func TestCheckNamesWhatToChange(t *testing.T) {
	file := newFile(t)
	good := open(t, file)
	if found, err := checked(t, good); len(found) > 0 || err != nil {
		t.Errorf("a good database: %v, %v", found, err)
	}
	for _, c := range []struct{ dsn, want, says string }{
		{"file:" + newFile(t), "schema", "Migrate"},
		{"file:" + file + "?mode=ro", "rights", "allowed to write"},
		{"file:" + newFile(t) + "?_pragma=journal_mode(delete)", "journal", "wal"},
		{"file::memory:", "memory", "open a file"},
	} {
		db, err := sql.Open("sqlite", c.dsn)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1) // a database in memory is that of one connection
		defer db.Close()
		if c.want == "journal" || c.want == "memory" {
			if err := sqlitelocker.New(db).Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		found, err := checked(t, db)
		if err != nil || len(found) != 1 || found[0].Name != c.want || !strings.Contains(found[0].Text, c.says) {
			t.Errorf("%s: %+v, %v; want %s", c.dsn, found, err, c.want)
			continue
		}
		if !slices.Contains(sqlitelocker.New(db).Capabilities().Findings, found[0].Name) {
			t.Errorf("Findings lack %s", found[0].Name)
		}
	}
}

func TestAMissingTableEndsTheWaitAndSaysWhatToRun(t *testing.T) {
	db, err := sql.Open("sqlite", dsn(newFile(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	g, err := guard.New(sqlitelocker.New(db), guard.WithMaxWait(time.Hour)) // which no test has
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(t.Context())
	err = g.Do(t.Context(), "k", func(context.Context) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "run Migrate") {
		t.Errorf("%v, want an error at once that says to run Migrate", err)
	}
}

func TestWrongSettingsAreRefusedByGuardNew(t *testing.T) {
	for _, l := range []*sqlitelocker.Locker{
		sqlitelocker.New(nil), sqlitelocker.New(new(sql.DB), sqlitelocker.WithTable("a; DROP TABLE b")),
	} {
		if _, err := guard.New(l); !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%v, want ErrInvalidOption", err)
		}
	}
}

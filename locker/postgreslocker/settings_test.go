package postgreslocker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

func TestAMissingTableSaysWhatToRun(t *testing.T) {
	l := postgreslocker.New(pool(t), postgreslocker.WithTable("missing"))
	if err := l.Open(silent{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(t.Context()) }()
	_, err := l.Acquire(t.Context(), claim("k"), locker.Try{})
	if err == nil || errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "Migrate") {
		t.Errorf("Acquire: %v, want a final error that names Migrate", err)
	}
	found, rest := locker.Findings(l.Check(t.Context(), 10*time.Second))
	if rest != nil || !named(found, "schema") {
		t.Errorf("Check: %v, %v, want the finding schema", found, rest)
	}
}

func TestLeastRightsAreEnough(t *testing.T) {
	owner, _ := pair(t)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	table := tableOf(owner)
	role := "least_of_" + table
	if _, err := conn.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	dsn := strings.Replace(server.URL, "guard@", role+"@", 1)
	p := poolTo(t, dsn)
	l := postgreslocker.New(p, postgreslocker.WithTable(table))
	g, err := guard.New(l)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(t.Context()) }()
	found, rest := locker.Findings(l.Check(t.Context(), 10*time.Second))
	if rest != nil || !named(found, "rights") {
		t.Errorf("Check without rights: %v, %v, want the finding rights", found, rest)
	}
	if _, err := g.Acquire(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "rights") {
		t.Errorf("Acquire without rights: %v, want an error that names them", err)
	}
	if _, err := conn.Exec(t.Context(),
		"GRANT SELECT, INSERT, UPDATE, DELETE ON "+table+", "+table+"_record TO "+role); err != nil {
		t.Fatal(err)
	}
	if found, rest := locker.Findings(l.Check(t.Context(), 10*time.Second)); rest != nil || named(found, "rights") {
		t.Errorf("Check with rights: %v, %v", found, rest)
	}
	lease, err := g.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Migrate(t.Context()); err != nil {
		t.Errorf("Migrate with nothing to do: %v", err)
	}
}

// A pool often gets its password, and sets up its connections, by functions.
func TestEveryConnectionIsMadeAsThePoolMakesIt(t *testing.T) {
	t.Parallel()
	var before, after atomic.Int64
	config, err := pgxpool.ParseConfig(strings.Replace(server.URL, "guard@", "nobody_yet@", 1))
	if err != nil {
		t.Fatal(err)
	}
	config.BeforeConnect = func(_ context.Context, to *pgx.ConnConfig) error {
		before.Add(1)
		to.User = "guard"
		return nil
	}
	config.AfterConnect = func(context.Context, *pgx.Conn) error {
		after.Add(1)
		return nil
	}
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	l := postgreslocker.New(p, postgreslocker.WithTable("lease_as_the_pool"))
	if err := l.Migrate(t.Context()); err != nil || after.Load() != 1 {
		t.Fatalf("Migrate: %v after %d calls of AfterConnect", err, after.Load())
	}
	open(t, l, silent{})
	acquire(t, l, claim("k"), locker.Try{})
	until(t, "it hears", l.Hears)
	if before.Load() < 3 || after.Load() < 3 {
		t.Errorf("%d calls of BeforeConnect, %d of AfterConnect, want 3 of each", before.Load(), after.Load())
	}
}

// A session of a pooler is not the locker's own: what it listens to and locks
// there stays for others.
func TestNothingListensThroughAPooler(t *testing.T) {
	l := postgreslocker.New(pool(t), postgreslocker.WithPooler())
	if at := l.ListenAt(); at != nil {
		t.Error("it listens through the pooler")
	}
	l = postgreslocker.New(pool(t), postgreslocker.WithPooler(), postgreslocker.WithListen(server.URL))
	at := l.ListenAt()
	if at == nil {
		t.Fatal("it does not listen")
	}
	if at.ConnConfig.ConnectTimeout == 0 || at.ConnConfig.RuntimeParams["application_name"] != "guard" {
		t.Errorf("the direct connection has a limit of %v and the name %q, want one and guard",
			at.ConnConfig.ConnectTimeout, at.ConnConfig.RuntimeParams["application_name"])
	}
}

// A pooler in transaction mode gives a request another session than the one
// that has prepared its statement.
func TestAPreparedStatementThatIsElsewhereSaysWhatToDo(t *testing.T) {
	for _, code := range []string{"42P05", "26000"} {
		err := postgreslocker.Translate(&pgconn.PgError{Code: code, Message: "prepared statement"})
		if !strings.Contains(err.Error(), "WithPooler") {
			t.Errorf("%s: %v, want it to name WithPooler", code, err)
		}
	}
}

// tableOf returns the table that the schema of l makes.
func tableOf(l *postgreslocker.Locker) string {
	_, rest, _ := strings.Cut(l.Schema(), `CREATE TABLE IF NOT EXISTS "`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

func named(found []locker.Finding, name string) bool {
	for _, f := range found {
		if f.Name == name {
			return true
		}
	}
	return false
}

func TestAnAddressOpensTheStoreAndShowsNoPassword(t *testing.T) {
	l, err := locker.FromDSN(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := l.(*postgreslocker.Locker)
	if !ok {
		t.Fatalf("%T", l)
	}
	if err := p.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = locker.FromDSN("postgres://u:hunter%zz2@localhost/db")
	if !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "hunter") {
		t.Errorf("%v, want ErrInvalidOption without the password", err)
	}
	err = postgreslocker.New(pool(t), postgreslocker.WithListen("postgres://u:hunter%zz2@localhost/db")).Open(silent{})
	if !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "hunter") {
		t.Errorf("%v, want ErrInvalidOption without the password", err)
	}
}

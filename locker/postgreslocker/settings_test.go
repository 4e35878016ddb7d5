package postgreslocker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/testguard"
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
		"GRANT SELECT, INSERT, UPDATE, DELETE ON "+table+", "+table+"_process TO "+role); err != nil {
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
	testguard.Eventually(t, "it hears", l.Hears)
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

func TestKeysLingerOnlyWhereMessagesCome(t *testing.T) {
	p, pooler := pool(t), postgreslocker.WithPooler()
	type options = []postgreslocker.Option
	for name, c := range map[string]struct {
		opts    options
		lingers bool
	}{
		"listens":                    {nil, true},
		"polls":                      {options{postgreslocker.WithPollOnly()}, false},
		"behind a pooler":            {options{pooler}, false},
		"listens beside that pooler": {options{pooler, postgreslocker.WithListen(server.URL)}, true},
	} {
		l := postgreslocker.New(p, c.opts...)
		g, err := guard.New(l, guard.WithLinger(time.Second))
		if err == nil {
			_ = g.Close(t.Context())
		}
		if can := l.Capabilities().Lingers; can != c.lingers || errors.Is(err, errors.ErrUnsupported) == c.lingers {
			t.Errorf("%s: keys linger: %v, New with WithLinger: %v", name, can, err)
		}
	}
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	for _, c := range []struct {
		code, message, want string
		unavailable         bool
	}{
		{"25006", "cannot execute UPDATE in a read-only transaction", "the address must lead to the primary", true},
		{"26000", "prepared statement does not exist", "pass WithPooler, or pooler=true", true},
		{"28000", "no pg_hba.conf entry for host", "pg_hba.conf does not let it in", false},
		{"28P01", "password authentication failed for user", "the user or its password is wrong", false},
		{"3D000", "database does not exist", "there is no such database", false},
		{"3F000", "schema does not exist", "create the schema", false},
		{"42501", "permission denied for schema locks", "GRANT USAGE ON SCHEMA", false},
		{"42501", "permission denied for table guard_lease", "give the role the rights", false},
		{"42501", "new row violates row-level security policy", "DISABLE ROW LEVEL SECURITY", false},
		{"42703", "column does not exist", "drop it while no process uses it", false},
		{"42P01", "relation does not exist", "lacks USAGE", false},
		{"42P05", "prepared statement already exists", "pass WithPooler", false},
		{"53300", "sorry, too many clients already", "raise max_connections", true},
	} {
		err := postgreslocker.Translate(&pgconn.PgError{Code: c.code, Message: c.message})
		if !strings.Contains(err.Error(), c.message) || !strings.Contains(err.Error(), c.want) ||
			errors.Is(err, locker.ErrUnavailable) != c.unavailable || errors.Is(err, locker.ErrSilent) {
			t.Errorf("%s: %v\nwant %q, unavailable: %v", c.code, err, c.want, c.unavailable)
		}
	}
}

// roleOf makes a role with all rights on the tables of l, and returns its
// address.
func roleOf(t *testing.T, conn *pgx.Conn, l *postgreslocker.Locker, statements ...string) (dsn string) {
	t.Helper()
	table := tableOf(l)
	role := "role_of_" + table
	for _, s := range append([]string{
		"CREATE ROLE {R} LOGIN", "GRANT SELECT, INSERT, UPDATE, DELETE ON {T}, {T}_process TO {R}",
	}, statements...) {
		if _, err := conn.Exec(t.Context(), strings.NewReplacer("{R}", role, "{T}", table).Replace(s)); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return strings.Replace(conn.Config().ConnString(), "guard@", role+"@", 1)
}

// finds returns what Check finds for the table of l at another address.
func finds(t *testing.T, l *postgreslocker.Locker, dsn string) []locker.Finding {
	t.Helper()
	other := postgreslocker.New(poolTo(t, dsn), postgreslocker.WithTable(tableOf(l)))
	open(t, other, silent{})
	found, err := locker.Findings(other.Check(t.Context(), 10*time.Second))
	if err != nil {
		t.Error(err)
	}
	return found
}

// The server has settings of its own, because some of these are the server's.
func TestCheckFindsWhatKeepsAllWritesBack(t *testing.T) {
	t.Parallel()
	own, err := sqltest.StartPostgreSQL()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	conn, err := pgx.Connect(t.Context(), own.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	for _, c := range []struct {
		want      string
		statement string
	}{
		{"row-security", "ALTER TABLE {T} ENABLE ROW LEVEL SECURITY"},
		{"read-only", "ALTER ROLE {R} SET default_transaction_read_only = on"},
		{"rights", "REVOKE USAGE ON SCHEMA public FROM PUBLIC"}, // and for those below
		{"synchronous", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'"},
	} {
		l, _ := pairOn(t, own.URL)
		dsn := roleOf(t, conn, l)
		if found := finds(t, l, dsn); named(found, c.want) {
			t.Errorf("%s is found before it is so: %v", c.want, found)
		}
		role := strings.NewReplacer("{R}", "role_of_"+tableOf(l), "{T}", tableOf(l))
		if _, err := conn.Exec(t.Context(), role.Replace(c.statement)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
		testguard.Eventually(t, c.want, func() bool { return named(finds(t, l, dsn), c.want) })
	}
}

// Whoever follows the advice must not come to share the locks of others.
func TestATableOfAStrangersSchemaIsNotAskedFor(t *testing.T) {
	t.Parallel()
	l, _ := pair(t)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	dsn := roleOf(t, conn, l, "CREATE SCHEMA of_another", "CREATE TABLE of_another.not_made (k int)")
	other := postgreslocker.New(poolTo(t, dsn), postgreslocker.WithTable("not_made"))
	open(t, other, silent{})
	found, err := locker.Findings(other.Check(t.Context(), 10*time.Second))
	if err != nil || !named(found, "schema") || named(found, "rights") {
		t.Errorf("%v, %v, want the finding schema", found, err)
	}
}

func TestAnAddressMayLeadThroughAPooler(t *testing.T) {
	t.Parallel()
	pooler, err := sqltest.StartPgBouncer(server, "default_pool_size=3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pooler.Close)
	l, err := locker.FromDSN(pooler.URL + "&pooler=true")
	if err != nil {
		t.Fatal(err)
	}
	if l.(*postgreslocker.Locker).ListenAt() != nil {
		t.Error("it listens through the pooler")
	}
	if err := l.(*postgreslocker.Locker).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := testguard.Patient(t, l)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			key := guard.Key("pooled", i%5)
			if err := g.Do(t.Context(), key, func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := locker.FromDSN(pooler.URL + "&pooler=perhaps"); !errors.Is(err, locker.ErrInvalidOption) {
		t.Errorf("pooler=perhaps: %v, want ErrInvalidOption", err)
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

// A connection that somebody has broken says nothing of the server.
func TestOnlyARefusedDialAndATimeoutAreSilence(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for err, want := range map[error]bool{
		io.EOF:                     false,
		io.ErrUnexpectedEOF:        false,
		dial(syscall.ECONNRESET):   false,
		errors.New("conn closed"):  false,
		dial(syscall.ECONNREFUSED): true,
		context.DeadlineExceeded:   true,
		os.ErrDeadlineExceeded:     true,
	} {
		got := postgreslocker.Translate(fmt.Errorf("acquire: %w", err))
		if !errors.Is(got, locker.ErrUnavailable) || errors.Is(got, locker.ErrSilent) != want {
			t.Errorf("%v: got %v, want silence: %t", err, got, want)
		}
	}
}

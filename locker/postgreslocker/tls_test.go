package postgreslocker_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/testcert"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// encrypted starts a server that takes TLS too. It returns its address for
// clients that verify its certificate.
func encrypted(t *testing.T) string {
	t.Helper()
	s, err := sqltest.StartPostgreSQL()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	cert, key := testcert.New(t)
	for name, text := range map[string][]byte{"server.crt": cert, "server.key": key} { // as its own user, in its folder
		rows := "('" + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "'), ('") + "')"
		_, err := conn.Exec(t.Context(), "COPY (VALUES "+rows+") TO PROGRAM 'umask 077; cat >"+name+"'")
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err1 := conn.Exec(t.Context(), "ALTER SYSTEM SET ssl = on")
	_, err2 := conn.Exec(t.Context(), "SELECT pg_reload_conf()")
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := errors.Join(err1, err2, os.WriteFile(authority, cert, 0o600)); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(s.URL, "sslmode=disable", "sslmode=verify-full&sslrootcert="+authority, 1)
}

// The connection that listens is as the user's: encrypted and verified.
func TestTLSIsThePools(t *testing.T) {
	t.Parallel()
	dsn := encrypted(t)
	p := poolTo(t, dsn)
	testguard.Eventually(t, "the server takes TLS", func() bool { return p.Ping(t.Context()) == nil })
	a, b := postgreslocker.New(p), postgreslocker.New(poolTo(t, dsn))
	if err := a.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := told{wanted: make(chan string, 10)}
	open(t, a, w)
	open(t, b, silent{})
	acquire(t, a, claim("first"), locker.Try{}) // nothing listens before the first claim
	testguard.Eventually(t, "it hears", a.Hears)
	acquire(t, a, claim("k"), locker.Try{})
	isTold(t, b, w, "k")
	var all, plain int
	err := p.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl "+
		"JOIN pg_stat_activity USING (pid) WHERE backend_type = 'client backend'").Scan(&all, &plain)
	if err != nil || all < 3 || plain > 0 {
		t.Errorf("%d connections, %d without TLS, %v", all, plain, err)
	}
}

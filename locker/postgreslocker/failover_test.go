package postgreslocker_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/sqltest/sqlfault"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// cluster is two servers, one of which is the primary at an address.
type cluster struct {
	old, next *sqltest.Server
	primary   *sqltest.Primary
	dsn       string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	var c cluster
	for _, s := range []**sqltest.Server{&c.old, &c.next} {
		server, err := sqltest.StartPostgreSQL()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		if err := postgreslocker.New(poolTo(t, server.URL)).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		*s = server
	}
	primary, err := sqltest.NewPrimary(t.Context(), c.old.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(primary.Close)
	u, err := url.Parse(c.old.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = primary.Addr()
	c.primary, c.dsn = primary, u.String()
	return &c
}

// move makes the old primary one that takes no writes, and answers on.
func (c *cluster) move(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.old.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, statement := range []string{
		"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	testguard.Eventually(t, "the old primary is read-only", func() bool {
		var is string
		return conn.QueryRow(t.Context(), "SHOW transaction_read_only").Scan(&is) == nil && is == "on"
	})
	c.primary.Move(c.next.Addr())
}

func TestAnOldPrimaryThatAnswersIsLeft(t *testing.T) {
	for name, opt := range map[string]postgreslocker.Option{
		"listens": postgreslocker.WithTable("guard_lease"), "polls": postgreslocker.WithPollOnly(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			sqlfault.Failover(t, func() locker.Locker { return postgreslocker.New(poolTo(t, c.dsn), opt) },
				func() { c.move(t) })
		})
	}
}

// The connection that listens does nothing that a server without writes
// refuses.
func TestAnOldPrimaryIsNotListenedTo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := postgreslocker.New(poolTo(t, c.dsn))
	open(t, l, silent{})
	acquire(t, l, claim("k"), locker.Try{})
	testguard.Eventually(t, "it hears", l.Hears)
	channel := channelOf(t, l, "k")
	c.move(t)
	conn, err := pgx.Connect(t.Context(), c.next.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	began := time.Now()
	for endedSession(t, conn, channel) || !l.Hears() {
		if time.Since(began) > testguard.Patience {
			t.Fatal("it listens to the old primary")
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("it listens to the new primary after %v", time.Since(began))
}

func TestTheErrorOfAReadOnlyServerSaysThatItAnswered(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := postgreslocker.New(poolTo(t, c.old.URL))
	open(t, l, silent{})
	c.move(t)
	_, err := l.Acquire(t.Context(), claim("k"), locker.Try{})
	if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrSilent) ||
		!strings.Contains(err.Error(), "the server answered") {
		t.Errorf("%v, want an ErrUnavailable of a server that answered", err)
	}
	found, rest := locker.Findings(l.Check(t.Context(), 10*time.Second))
	if rest != nil || !named(found, "read-only") {
		t.Errorf("Check: %v, %v, want the finding read-only", found, rest)
	}
}

// The tries before the deadline are too short for an answer. On a slow machine
// so are others, which is told, and another cluster is tried.
func TestALeaseLostToARefusalSaysWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	for began := time.Now(); ; {
		err := lostToARefusal(t)
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Fatalf("%v, want a lost lease", err)
		}
		if said := err.Error(); strings.Contains(said, "(25006)") && !strings.Contains(said, "no answer") {
			return
		}
		if time.Since(began) > testguard.Patience {
			t.Fatalf("%v, want the refusal 25006", err)
		}
	}
}

// lostToARefusal returns the error of a lease that was held when its server
// became read-only.
func lostToARefusal(t *testing.T) error {
	t.Helper()
	c := newCluster(t)
	g, err := guard.New(postgreslocker.New(poolTo(t, c.old.URL)), guard.WithTTL(6*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(t.Context())) }() // nobody can free the key, so it insists
	return g.Do(t.Context(), "k", func(ctx context.Context) error {
		c.move(t)
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

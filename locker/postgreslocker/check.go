package postgreslocker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

// FindingNames returns the names that findings of Check can have.
func (l *Locker) FindingNames() []string {
	return []string{
		"standby", "schema", "rights", "unlogged", "fsync", "isolation", "round-trip", "version",
		"messages",
	}
}

// condition is what the server says of itself.
type condition struct {
	standby, there, rights, unlogged bool
	version                          int
	fsync, isolation                 string
}

const thereSQL = `(SELECT bool_and(to_regclass(t) IS NOT NULL) FROM unnest($1::text[]) AS t)
  AND (SELECT bool_and(to_regproc(f) IS NOT NULL) FROM unnest($2::text[]) AS f)`

const conditionSQL = `SELECT pg_is_in_recovery(),
  ` + thereSQL + `,
  coalesce((SELECT bool_and(has_table_privilege(to_regclass(t), p))
      FROM unnest($1::text[]) AS t, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS p)
    AND (SELECT bool_and(has_function_privilege(to_regproc(f), 'EXECUTE')) FROM unnest($2::text[]) AS f), false),
  coalesce((SELECT bool_or(relpersistence <> 'p') FROM unnest($1::text[]) AS t
    JOIN pg_class ON oid = to_regclass(t)), false),
  current_setting('server_version_num')::int, current_setting('fsync'), current_setting('transaction_isolation')`

// Check reports whether the server can serve leases of the given TTL. It takes
// four requests.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error {
	if err := l.gate.Enter(); err != nil {
		return err
	}
	defer l.gate.Leave()
	var c condition
	var trip time.Duration
	if err := l.retry(ctx, func() error {
		return l.aside(ctx, func(conn *pgxpool.Conn) (err error) {
			err = conn.QueryRow(ctx, conditionSQL, l.sql.tables, l.sql.functions).
				Scan(&c.standby, &c.there, &c.rights, &c.unlogged, &c.version, &c.fsync, &c.isolation)
			if err == nil {
				trip, err = roundTrip(ctx, conn)
			}
			return err
		})
	}); err != nil {
		return translate(err)
	}
	return errors.Join(append(l.judge(&c), l.hearing(), judgeTrip(trip, ttl))...)
}

// roundTrip returns the best of three.
func roundTrip(ctx context.Context, conn *pgxpool.Conn) (best time.Duration, err error) {
	best = time.Hour
	for range 3 {
		sent := time.Now()
		if err := conn.Ping(ctx); err != nil {
			return 0, err
		}
		best = min(best, time.Since(sent))
	}
	return best, nil
}

func finding(name string, severity locker.Severity, format string, args ...any) error {
	return &locker.Finding{Name: name, Severity: severity, Text: "postgreslocker: " + fmt.Sprintf(format, args...)}
}

func (l *Locker) judge(c *condition) (found []error) {
	if c.standby {
		found = append(found, finding("standby", locker.Refuse,
			"the server is a standby and takes no writes: add target_session_attrs=read-write to the address"))
	}
	switch {
	case !c.there:
		found = append(found, finding("schema", locker.Refuse,
			"the table %s or %s or one of their functions is missing: call Migrate, or run the SQL of Schema",
			l.sql.tables[0], l.sql.tables[1]))
	case !c.rights:
		found = append(found, finding("rights", locker.Refuse,
			"the role needs SELECT, INSERT, UPDATE and DELETE on %s, and EXECUTE on %s",
			strings.Join(l.sql.tables, " and "), strings.Join(l.sql.functions, ", ")))
	}
	if c.unlogged {
		found = append(found, finding("unlogged", locker.Refuse,
			"a crash empties the tables: ALTER TABLE %s SET LOGGED, and %s",
			l.sql.tables[0], l.sql.tables[1]))
	}
	if c.fsync == "off" {
		found = append(found, finding("fsync", locker.Warn, "fsync is off: a crash of the machine may lose leases"))
	}
	if c.isolation != "read committed" {
		found = append(found, finding("isolation", locker.Warn,
			"the isolation is %s, and requests are sent again for it: "+
				"set default_transaction_isolation of the role to read committed", c.isolation))
	}
	if c.version < 130000 {
		found = append(found, finding("version", locker.Warn,
			"the server is older than PostgreSQL 13, which was not tried"))
	}
	return found
}

// hearing tells whether messages come.
func (l *Locker) hearing() error {
	l.mu.Lock()
	began := l.listening
	l.mu.Unlock()
	if l.listenAt == nil || !began || l.hears.Load() {
		return nil
	}
	return finding("messages", locker.Warn, "the connection that listens hears nothing, so the locker polls every %v: "+
		"if a pooler is in between, name a direct way by WithListen", pollEvery)
}

func judgeTrip(trip, ttl time.Duration) error {
	switch {
	case trip > min(ttl/10, 200*time.Millisecond):
		return finding("round-trip", locker.Refuse, "a round trip takes %v, too long for a TTL of %v", trip, ttl)
	case trip > ttl/18:
		return finding("round-trip", locker.Warn,
			"a round trip takes %v: a connection that breaks may cost a lease", trip)
	}
	return nil
}

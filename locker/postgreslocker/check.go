package postgreslocker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Check reports whether the server can serve leases of the given TTL. Check
// looks at the settings. If they are good, it takes and releases a key that
// nobody uses, and measures that.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error {
	r := l.rows
	if r.server.pool == nil {
		return l.base.Check(ctx, ttl) // it is not open
	}
	found, err := collect(ctx, r.server, r.server.pages, finding, checkSQL, r.sql.tables, r.sql.name)
	switch {
	case code(err) == "42501":
		return lockerkit.Finding("postgreslocker", "rights", locker.Refuse, "%v", translate(err))
	case err == nil && slices.ContainsFunc(found, refuses):
		return errors.Join(found...)
	case err == nil && r.ears.listens.Load() && !r.ears.hears.Load():
		found = append(found, lockerkit.Finding("postgreslocker", "messages", locker.Warn,
			"the connection that listens "+
				"hears nothing, so the locker polls: if a pooler is in between, name a direct way by WithListen"))
	}
	return errors.Join(append(found, l.base.Check(ctx, ttl))...)
}

// findings are the names that findings of Check can have.
var findings = []string{
	"standby", "read-only", "schema", "rights", "row-security", "synchronous", "unlogged", "fsync", "isolation",
	rowlocker.FindingRoundTrip, "version", "messages",
}

// slowShare is the part of a TTL that a write may take. A try to renew has a
// sixth, and needs three round trips where a connection breaks.
const slowShare = 18

// Check tells of a probe that was slow.
func (*rows) Check(_ context.Context, ttl, took time.Duration, failed error) error {
	if failed == nil && took > ttl/slowShare && took <= lockerkit.MaxPace(ttl) {
		return lockerkit.Finding("postgreslocker", rowlocker.FindingRoundTrip, locker.Warn,
			"an acquire took %v: a connection that breaks may cost a lease", took.Round(time.Millisecond))
	}
	return failed
}

func refuses(err error) bool {
	f := (*locker.Finding)(nil)
	return errors.As(err, &f) && f.Severity == locker.Refuse
}

// finding is a row of checkSQL.
func finding(row pgx.CollectableRow) (error, error) {
	var name, text string
	var refuse bool
	err := row.Scan(&name, &refuse, &text)
	severity := locker.Warn
	if refuse {
		severity = locker.Refuse
	}
	return lockerkit.Finding("postgreslocker", name, severity, "%s", text), err
}

const thereSQL = `(SELECT bool_and(to_regclass(t) IS NOT NULL) FROM unnest($1::text[]) AS t)`

// checkSQL finds what is wrong: name, whether that refuses, and what to do.
const checkSQL = `WITH s AS (SELECT ` + thereSQL + ` AS there, ($1::text[])[1] AS t, ($1::text[])[2] AS p,
  (SELECT min(n.nspname::text) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relname = $2 AND NOT has_schema_privilege(n.oid, 'USAGE') AND n.nspname = ANY(string_to_array(
      translate(replace(current_setting('search_path'), '$user', current_user), '" ', ''), ','))) AS hidden)
SELECT f.name, f.refuse, f.text FROM s, LATERAL (VALUES
  ('standby', true, pg_is_in_recovery(),
    'the server is a standby and takes no writes: add target_session_attrs=read-write to the address'),
  ('read-only', true, NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'on',
    'transactions are read-only: lead the address to the primary, or reset default_transaction_read_only of server, ' ||
    'database and role'),
  ('synchronous', true, current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') <> 'local'
    AND NOT EXISTS (SELECT FROM pg_stat_replication WHERE coalesce(sync_state, 'sync') IN ('sync', 'quorum')),
    'no write ends, because none of the standbys in synchronous_standby_names is connected: bring one back, or take them ' ||
    'out of the setting'),
  ('rights', true, NOT there AND hidden IS NOT NULL,
    format('the role may not look into the schema %s, where there is such a table: GRANT USAGE ON SCHEMA %1$I', coalesce(hidden, ''))),
  ('schema', true, NOT there AND hidden IS NULL,
    format('the table %s or %s is missing: call Migrate, or run the SQL of Schema', t, p)),
  ('rights', true, there AND NOT (SELECT bool_and(has_table_privilege(to_regclass(r), v))
      FROM unnest($1::text[]) AS r, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS v),
    format('the role needs SELECT, INSERT, UPDATE and DELETE on %s and %s', t, p)),
  ('row-security', true, (SELECT bool_or(row_security_active(to_regclass(r)) AND NOT EXISTS (
      SELECT FROM pg_policy WHERE polrelid = to_regclass(r))) FROM unnest($1::text[]) AS r),
    format('row-level security hides all rows from the role: ALTER TABLE %s DISABLE ROW LEVEL SECURITY, and %s', t, p)),
  ('unlogged', true, (SELECT bool_or(c.relpersistence <> 'p') FROM unnest($1::text[]) AS r
      JOIN pg_class AS c ON c.oid = to_regclass(r)),
    format('a crash empties the tables: ALTER TABLE %s SET LOGGED, and %s', t, p)),
  ('fsync', false, current_setting('fsync') = 'off', 'fsync is off: a crash of the machine may lose leases'),
  ('isolation', false, current_setting('transaction_isolation') <> 'read committed',
    format('the isolation is %s, and requests are sent again for it: set default_transaction_isolation of the role ' ||
    'to read committed', current_setting('transaction_isolation'))),
  ('version', false, current_setting('server_version_num')::int < 130000,
    'the server is older than PostgreSQL 13, which was not tried')
) AS f(name, refuse, bad, text) WHERE f.bad`

package postgreslocker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// Inspect returns the owner of key, the claims that wait for it and its record,
// by one request.
func (l *Locker) Inspect(ctx context.Context, key string) (s locker.KeyState, err error) {
	if err := l.life.Enter(); err != nil {
		return s, err
	}
	defer l.life.Leave()
	states, err := l.server.states(ctx, l.server.sql.one, []byte(key))
	if err == nil && len(states) == 1 {
		s = states[0]
	}
	s.Key = key
	return s, err
}

// List returns the same for every key that is owned or waited for, by one
// request for each 200 keys.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		after := []byte{}
		for {
			page, err := l.page(ctx, after)
			if err != nil {
				yield(locker.KeyState{}, err)
				return
			}
			for _, s := range page {
				if (s.Held || s.Waiting > 0) && !yield(s, nil) {
					return
				}
			}
			if len(page) < listMax {
				return
			}
			after = []byte(page[len(page)-1].Key)
		}
	}
}

func (l *Locker) page(ctx context.Context, after []byte) ([]locker.KeyState, error) {
	if err := l.life.Enter(); err != nil {
		return nil, err
	}
	defer l.life.Leave()
	return l.server.states(ctx, l.server.sql.list, after)
}

// ForceRelease ends the hold of owner on key, and hands the key on, by one
// request.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	if _, err := base64.RawURLEncoding.DecodeString(owner); err != nil || len(owner) != locker.OwnerLen {
		return invalid("%q is no owner id", owner)
	}
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Leave()
	_, err := l.release(ctx, ending{key: key, owner: owner, flags: flagTell}, nil)
	return err
}

func scanState(r pgx.CollectableRow) (s locker.KeyState, err error) {
	var (
		key, waiters []byte
		head         []byte
		holder       string
		remains      int64
		named        []struct{ O, H string }
		shares       []byte
		left         int64
	)
	if err := r.Scan(&key, &s.Owner, &holder, &remains, &s.Waiting, &waiters, &shares, &s.Record.Size,
		&left, &head); err != nil {
		return s, err
	}
	s.Key, s.Record.Remaining, s.Record.Head = string(key), microseconds(left), string(head)
	switch s.Held = s.Owner != "" && remains > 0; {
	case s.Held && shares != nil:
		s.Remaining = microseconds(remains)
		if err := describe(&s, shares); err != nil {
			return s, err
		}
	case s.Held:
		s.Holder, s.Remaining = lockerkit.HolderOf([]byte(holder)), microseconds(remains)
	default:
		s.Owner = ""
	}
	if err := json.Unmarshal(waiters, &named); err != nil {
		return s, errors.New("the queue cannot be read")
	}
	for _, w := range named {
		s.Waiters = append(s.Waiters, locker.Waiter{Owner: w.O, Holder: lockerkit.HolderOf([]byte(w.H))})
	}
	return s, nil
}

// describe fills in the owners of a key that others may join.
func describe(s *locker.KeyState, shares []byte) error {
	var all []struct {
		O, H string
		N    int
	}
	if err := json.Unmarshal(shares, &all); err != nil {
		return errors.New("the owners cannot be read")
	}
	s.Owner, s.Limit, s.Held = "", locker.NoLimit, len(all) > 0
	for i, o := range all {
		s.Limit = min(s.Limit, o.N)
		if i < locker.MaxListed {
			s.Owners = append(s.Owners, locker.Waiter{Owner: o.O, Holder: lockerkit.HolderOf([]byte(o.H))})
		}
	}
	return nil
}

// Schema returns the SQL of the tables and their functions, for a migration
// tool. Its statements belong into one transaction. Several processes may run
// it at once. The functions have a version in their names, so processes of an
// older release go on beside them. Schema is "" if WithTable has a wrong name.
func (l *Locker) Schema() string {
	if l.server.sql == nil {
		return ""
	}
	return l.server.sql.schema
}

// Migrate makes the tables and their functions if one of them is missing, in
// one transaction. Otherwise it changes nothing, and needs no right to. Several
// processes may call it at once. Migrate needs no Open, and blocks for three
// requests, at most until ctx ends. The error is ErrInvalidOption,
// ErrUnavailable or a refusal of the server.
func (l *Locker) Migrate(ctx context.Context) error {
	if l.wrong != nil {
		return l.wrong
	}
	conn, err := connect(ctx, l.server.config)
	if err != nil {
		return translate(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var there bool
	sql := l.server.sql
	if err := conn.QueryRow(ctx, "SELECT "+thereSQL, pgx.QueryExecModeExec, sql.tables, sql.functions).
		Scan(&there); err != nil || there {
		return translate(err)
	}
	_, err = conn.PgConn().Exec(ctx, sql.schema).ReadAll() // several statements are one transaction
	return translate(err)
}

// Check reports whether the server can serve leases of the given TTL, by up to
// four requests.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error {
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Leave()
	var c condition
	var trip time.Duration
	if err := retry(ctx, func() error {
		return l.server.aside(ctx, func(conn *pgxpool.Conn) (err error) {
			err = conn.QueryRow(ctx, conditionSQL, l.server.sql.tables, l.server.sql.functions, l.server.sql.name).
				Scan(&c.standby, &c.readOnly, &c.hidden, &c.noPolicy, &c.alone, &c.there, &c.rights, &c.unlogged,
					&c.version, &c.fsync, &c.isolation)
			if err == nil {
				trip, err = roundTrip(ctx, conn, ttl/slowShare)
			}
			return err
		})
	}); err != nil {
		return fault(err)
	}
	return errors.Join(append(c.judge(l.server.sql), l.hearing(), judgeTrip(trip, ttl))...)
}

// FindingNames returns the names that findings of Check can have.
func (l *Locker) FindingNames() []string {
	return []string{
		"standby", "read-only", "schema", "rights", "row-security", "synchronous", "unlogged", "fsync", "isolation",
		"round-trip", "version", "messages",
	}
}

// condition is what the server says of itself.
type condition struct {
	standby, readOnly       bool
	there, rights, unlogged bool
	hidden                  string // a schema of the path with such a table, but without USAGE
	noPolicy                bool   // row-level security hides all rows
	alone                   bool   // a commit waits for a standby that is not there
	version                 int
	fsync, isolation        string
}

const thereSQL = `(SELECT bool_and(to_regclass(t) IS NOT NULL) FROM unnest($1::text[]) AS t)
  AND (SELECT bool_and(to_regproc(f) IS NOT NULL) FROM unnest($2::text[]) AS f)`

const conditionSQL = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
  coalesce((SELECT min(n.nspname::text) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relname = $3 AND NOT has_schema_privilege(n.oid, 'USAGE') AND n.nspname = ANY(string_to_array(
      translate(replace(current_setting('search_path'), '$user', current_user), '" ', ''), ','))), ''),
  coalesce((SELECT bool_or(row_security_active(to_regclass(t)) AND NOT EXISTS (
    SELECT FROM pg_policy WHERE polrelid = to_regclass(t))) FROM unnest($1::text[]) AS t), false),
  current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') <> 'local'
    AND NOT EXISTS (SELECT FROM pg_stat_replication WHERE coalesce(sync_state, 'sync') IN ('sync', 'quorum')),
  ` + thereSQL + `,
  coalesce((SELECT bool_and(has_table_privilege(to_regclass(t), p))
      FROM unnest($1::text[]) AS t, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS p)
    AND (SELECT bool_and(has_function_privilege(to_regproc(f), 'EXECUTE')) FROM unnest($2::text[]) AS f), false),
  coalesce((SELECT bool_or(relpersistence <> 'p') FROM unnest($1::text[]) AS t
    JOIN pg_class ON oid = to_regclass(t)), false),
  current_setting('server_version_num')::int, current_setting('fsync'), current_setting('transaction_isolation')`

// fault returns an error of Check, as a finding if it is about rights.
func fault(err error) error {
	if code(err) == "42501" {
		return &locker.Finding{Name: "rights", Severity: locker.Refuse, Text: translate(err).Error()}
	}
	return translate(err)
}

// roundTrip measures a request that does nothing.
func roundTrip(ctx context.Context, conn *pgxpool.Conn, enough time.Duration) (time.Duration, error) {
	return lockerkit.Pace(enough, func() (time.Duration, error) {
		sent := time.Now()
		err := conn.Ping(ctx)
		return time.Since(sent), err
	})
}

func finding(name string, severity locker.Severity, format string, args ...any) error {
	return &locker.Finding{Name: name, Severity: severity, Text: "postgreslocker: " + fmt.Sprintf(format, args...)}
}

// judge tells what is wrong, also with the tables of sql.
func (c *condition) judge(sql *statements) (found []error) {
	return append(append(c.judgeWrites(), c.judgeTables(sql)...), c.judgeSettings()...)
}

// judgeWrites tells what keeps the server from writing.
func (c *condition) judgeWrites() (found []error) {
	switch {
	case c.standby:
		found = append(found, finding("standby", locker.Refuse,
			"the server is a standby and takes no writes: add target_session_attrs=read-write to the address"))
	case c.readOnly:
		found = append(found, finding("read-only", locker.Refuse, "transactions are read-only: "+
			"lead the address to the primary, or reset default_transaction_read_only of server, database and role"))
	}
	if c.alone {
		found = append(found, finding("synchronous", locker.Refuse, "no write ends, because none of the standbys in "+
			"synchronous_standby_names is connected: bring one back, or take them out of the setting"))
	}
	return found
}

// judgeTables tells what is wrong with the tables and their functions.
func (c *condition) judgeTables(sql *statements) (found []error) {
	switch {
	case !c.there && c.hidden != "":
		found = append(found, finding("rights", locker.Refuse,
			"the role may not look into the schema %s, where there is such a table: GRANT USAGE ON SCHEMA %s",
			c.hidden, pgx.Identifier{c.hidden}.Sanitize()))
	case !c.there:
		found = append(found, finding("schema", locker.Refuse,
			"the table %s or %s or one of their functions is missing: call Migrate, or run the SQL of Schema",
			sql.tables[0], sql.tables[1]))
	case !c.rights:
		found = append(found, finding("rights", locker.Refuse,
			"the role needs SELECT, INSERT, UPDATE and DELETE on %s, and EXECUTE on %s",
			strings.Join(sql.tables, " and "), strings.Join(sql.functions, ", ")))
	}
	if c.noPolicy {
		found = append(found, finding("row-security", locker.Refuse,
			"row-level security hides all rows from the role: ALTER TABLE %s DISABLE ROW LEVEL SECURITY, and %s",
			sql.tables[0], sql.tables[1]))
	}
	if c.unlogged {
		found = append(found, finding("unlogged", locker.Refuse,
			"a crash empties the tables: ALTER TABLE %s SET LOGGED, and %s",
			sql.tables[0], sql.tables[1]))
	}
	return found
}

// judgeSettings tells which settings should be others.
func (c *condition) judgeSettings() (found []error) {
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
	if l.inbox.listenAt == nil || !l.inbox.listening.Load() || l.book.hears.Load() {
		return nil
	}
	return finding("messages", locker.Warn, "the connection that listens hears nothing, so the locker polls every %v: "+
		"if a pooler is in between, name a direct way by WithListen", pollEvery)
}

// slowShare is the part of a TTL that a round trip may take. A try to renew has a
// sixth, and needs three round trips where a connection breaks.
const slowShare = 18

func judgeTrip(trip, ttl time.Duration) error {
	switch {
	case trip > min(ttl/10, 200*time.Millisecond):
		return finding("round-trip", locker.Refuse, "a round trip takes %v, too long for a TTL of %v", trip, ttl)
	case trip > ttl/slowShare:
		return finding("round-trip", locker.Warn,
			"a round trip takes %v: a connection that breaks may cost a lease", trip)
	}
	return nil
}

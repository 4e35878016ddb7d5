package postgreslocker

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Locker is a [locker.Locker] in PostgreSQL, made by [New] and opened by
// guard.New. Its methods block for as long as their requests, at most until the
// context ends. After Close they return [locker.ErrClosed]. A Locker is safe
// for concurrent use.
type Locker struct {
	*base

	rows *rows
}

// base has the methods of package locker, which guard calls.
type base = rowlocker.Locker

var _ locker.Migrator = (*Locker)(nil)

// New returns a locker for the server of pool, and only keeps its settings.
// guard.New opens it, and returns an error if a setting is wrong. The locker
// opens connections of its own as pool would. pool stays the caller's.
func New(pool *pgxpool.Pool, opts ...Option) *Locker {
	if pool == nil {
		return newLocker(nil, opts...)
	}
	return newLocker(pool.Config(), opts...)
}

// newLocker owns config, which may be nil.
func newLocker(config *pgxpool.Config, opts ...Option) *Locker {
	r := &rows{server: newServer(config), sql: &statements{}}
	s := settings{table: "guard_lease"}
	for _, o := range opts {
		if o == nil {
			s.nilOpt = true
			continue
		}
		o(&s)
	}
	r.wrong = r.prepare(&s)
	return &Locker{rowlocker.New(r), r}
}

// Capabilities return what a Locker with these settings can do. Keys linger
// only where messages come.
func (l *Locker) Capabilities() locker.Capabilities {
	can := l.base.Capabilities()
	can.Lingers = l.rows.ears.at != nil
	return can
}

// prepare checks the settings.
func (r *rows) prepare(s *settings) error {
	if r.server.config == nil {
		return invalid("the pool is nil")
	}
	if s.nilOpt {
		return invalid("an option is nil")
	}
	if s.pollOnly && s.listen != "" {
		return invalid("WithPollOnly and WithListen exclude each other")
	}
	sql, err := statementsFor(s.table)
	if err != nil {
		return err
	}
	r.sql = sql
	config := r.server.config
	config.MaxConns, config.MinConns, config.MinIdleConns = connsMax+dying, 0, 0
	complete(config.ConnConfig)
	switch {
	case s.listen != "":
		if r.ears.at, err = pgxpool.ParseConfig(s.listen); err != nil {
			return invalid("the address of WithListen is wrong") // pgx's error may show a password
		}
		complete(r.ears.at.ConnConfig)
	case !s.pollOnly && !s.pooler:
		r.ears.at = config
	}
	if r.ears.at != nil {
		r.ears.at = r.server.wired(r.ears.at)
	}
	if s.pooler {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		config.ConnConfig.StatementCacheCapacity, config.ConnConfig.DescriptionCacheCapacity = 0, 0
	}
	return nil
}

// Schema returns the SQL of the tables, for a migration tool. Its statements
// belong into one transaction. Several processes may run it at once. Schema is
// "" if WithTable has a wrong name.
func (l *Locker) Schema() string { return l.rows.sql.schema }

// Migrate makes the tables if one of them is missing, in one transaction.
// Otherwise it changes nothing, and needs no right to. Several processes may
// call it at once. Migrate needs no Open, and blocks for three requests, at
// most until ctx ends. The error is ErrInvalidOption, ErrUnavailable or a
// refusal of the server.
func (l *Locker) Migrate(ctx context.Context) error {
	r := l.rows
	if r.wrong != nil {
		return r.wrong
	}
	conn, err := connect(ctx, r.server.config)
	if err != nil {
		return translate(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT "+thereSQL, pgx.QueryExecModeExec, r.sql.tables).
		Scan(&there); err != nil || there {
		return translate(err)
	}
	_, err = conn.PgConn().Exec(ctx, r.sql.schema).ReadAll() // several statements are one transaction
	return translate(err)
}

package postgreslocker

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

// Hears reports whether messages come.
func (l *Locker) Hears() bool { return l.rows.ears.hears.Load() }

// ListenAt is the configuration of the connection that listens, or nil.
func (l *Locker) ListenAt() *pgxpool.Config { return l.rows.ears.at }

// Base is l without that it listens.
func (l *Locker) Base() locker.Locker { return l.base.Locker }

// SwapSQL is the request that writes.
func (l *Locker) SwapSQL() string { return l.rows.sql.swap }

// Translate returns the error of a request.
var Translate = translate

// Sweep deletes the rows that mean nothing any more.
func (l *Locker) Sweep(ctx context.Context) { l.rows.sweep(ctx, l.rows.sql.sweep) }

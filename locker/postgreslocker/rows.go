package postgreslocker

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// rows are the table, and what its processes tell one another. They are safe
// for concurrent use.
type rows struct {
	wrong  error // the first wrong setting
	sql    *statements
	server *server
	ears   ears
	pulse  atomic.Pointer[pulse]
}

var (
	_ rowlocker.Ears   = (*rows)(nil)
	_ rowlocker.Pulse  = (*rows)(nil)
	_ rowlocker.Worker = (*rows)(nil)
)

// batchMax is the number of changes in a request.
const batchMax = 256

// Traits tell what PostgreSQL can do. A ticket is added to its row, under its
// lock, and leaves the version as it is.
func (*rows) Traits() rowlocker.Traits {
	return rowlocker.Traits{
		Name: "postgreslocker", Clock: true, Grain: time.Microsecond, Blind: true, Tickets: true, Members: true,
		Workers: workers, Batch: batchMax, Findings: findings,
	}
}

// Open checks the settings and makes the pool.
func (r *rows) Open() error {
	if r.wrong != nil {
		return r.wrong
	}
	return r.server.open()
}

// Close closes the connections.
func (r *rows) Close() { r.server.close() }

// scanned returns the row of a SELECT of rowSQL.
func scanned(from pgx.CollectableRow) (row rowlocker.Row, err error) {
	var key []byte
	var tickets []string
	var readOnly bool
	err = from.Scan(&key, &row.Version, &row.Written, &row.Value, &tickets, &row.Now, &readOnly)
	if err == nil && readOnly { // what such a server says may be old
		err = errReadOnly
	}
	row.Key, row.Tickets = string(key), ticketsOf(tickets)
	return row, err
}

// ticketsOf returns the tickets that stand in a row.
func ticketsOf(texts []string) (ts []rowlocker.Ticket) {
	for _, text := range texts {
		if f := strings.SplitN(text, "/", 3); len(f) == 3 {
			version, _ := strconv.ParseInt(f[0], 10, 64)
			value, _ := base64.StdEncoding.DecodeString(f[2])
			ts = append(ts, rowlocker.Ticket{Name: f[1], Version: version, Value: value})
		}
	}
	return ts
}

// Load reads rows by one statement.
func (r *rows) Load(ctx context.Context, keys []string) (found []rowlocker.Row, err error) {
	ks := make([][]byte, len(keys))
	for i, k := range keys {
		ks[i] = []byte(k)
	}
	found, err = collect(ctx, r.server, r.server.calls, scanned, r.sql.load, ks)
	return found, translate(err)
}

// Scan reads a page by one statement.
func (r *rows) Scan(ctx context.Context, after string, n int) ([]rowlocker.Row, error) {
	found, err := collect(ctx, r.server, r.server.pages, scanned, r.sql.scan, []byte(after), n)
	return found, translate(err)
}

const (
	sweepEvery = 5 * time.Minute
	sweepAfter = time.Minute // since a row has meant something, and a process was alive
	sweepMax   = 10 * time.Second
)

// Work deletes rows that mean nothing any more, a thousand at a time.
func (r *rows) Work(ctx context.Context) {
	for lockerkit.Pause(sweepEvery+rand.N(sweepEvery), ctx.Done()) {
		r.sweep(ctx, r.sql.sweep)
		r.sweep(ctx, r.sql.bury)
	}
}

func (r *rows) sweep(ctx context.Context, sql string) {
	for {
		limited, cancel := context.WithTimeout(ctx, sweepMax)
		gone, err := collect(limited, r.server, r.server.pages, pgx.RowTo[bool], sql, sweepAfter.Microseconds())
		cancel()
		if err != nil || len(gone) < 1000 {
			return
		}
	}
}

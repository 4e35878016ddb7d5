package postgreslocker

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

const (
	pingEvery = time.Second
	deafAfter = 3 * time.Second
)

// ears are the connection that listens.
type ears struct {
	at      *pgxpool.Config // nil: none listens
	listens atomic.Bool     // a connection that listens was made, or tried
	hears   atomic.Bool     // the connection has heard itself
}

// Listen keeps a connection that listens, until it breaks.
func (r *rows) Listen(ctx context.Context, instance string, hear func(rowlocker.Row), awake func()) {
	if r.ears.at == nil {
		<-ctx.Done()
		return
	}
	r.ears.listens.Store(true)
	err := r.hear(ctx, channelOf(instance), hear, awake)
	r.ears.hears.Store(false)
	wait := rand.N(200 * time.Millisecond)
	if errors.Is(err, errDeaf) {
		wait = 30 * time.Second // a pooler does not learn to pass messages on
	}
	lockerkit.Pause(wait, ctx.Done())
}

func channelOf(instance string) string { return "guard:" + instance }

var errDeaf = errors.New("the connection hears nothing")

// hear makes a connection and passes on what it hears, until it breaks.
func (r *rows) hear(ctx context.Context, channel string, hear func(rowlocker.Row), awake func()) error {
	conn, err := connect(ctx, r.ears.at)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := r.attend(ctx, conn, channel); err != nil {
		return err
	}
	for since := time.Now(); ; {
		limited, cancel := context.WithTimeout(ctx, pingEvery)
		n, err := conn.WaitForNotification(limited)
		cancel()
		switch {
		case err == nil && n.Payload == hello:
			if !r.ears.hears.Swap(true) {
				awake()
			}
			continue
		case err == nil:
			if row, ok := noticed(n.Payload); ok {
				hear(row)
			}
			continue
		case conn.IsClosed() || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		case !r.ears.hears.Load() && time.Since(since) > deafAfter:
			return errDeaf
		}
		if err := r.ping(ctx, conn); err != nil {
			return err
		}
	}
}

// ping asks whether the server is there and takes writes. An old primary that
// lives on hears no message of the new one.
func (r *rows) ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	var readOnly string
	err := conn.QueryRow(ctx, "SHOW transaction_read_only", pgx.QueryExecModeSimpleProtocol).Scan(&readOnly)
	if err == nil {
		r.server.heard()
	}
	if err == nil && readOnly == "on" {
		r.server.pool.Reset()
		return errReadOnly
	}
	return err
}

const hello = "hello"

// attend makes conn listen, and says hello from another connection. The lock
// tells others that somebody listens. The lock is shared, because the session
// of a connection that was cut off may have it still. The server ends such a
// session when its probes stay without answers. Behind a pooler the hello does
// not come.
func (r *rows) attend(ctx context.Context, conn *pgx.Conn, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, listenSQL, pgx.QueryExecModeExec, channel, int64(seed)); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	_, err := collect(ctx, r.server, r.server.calls, pgx.RowTo[any], "SELECT pg_notify($1, $2)", channel, hello)
	return err
}

const listenSQL = `SELECT pg_advisory_lock_shared(hashtextextended($1::text, $2::bigint)),
set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
set_config('tcp_keepalives_count', '3', false)`

// noticed returns what a message tells, see newsSQL and newsOfTicketSQL.
func noticed(text string) (row rowlocker.Row, ok bool) {
	f := strings.Split(text, " ")
	if len(f) < 3 {
		return row, false
	}
	key, _ := base64.StdEncoding.DecodeString(f[1])
	row.Key = string(key)
	if f[0] == "t" {
		row.Tickets = ticketsOf(f[2:])
		return row, len(row.Tickets) > 0
	}
	row.Version, _ = strconv.ParseInt(f[2], 10, 64)
	row.Written, _ = strconv.ParseInt(f[3], 10, 64)
	if len(f) > 4 {
		row.Value, _ = base64.StdEncoding.DecodeString(f[4])
		row.Tickets = ticketsOf(f[5:])
	}
	return row, row.Version > 0
}

const (
	pulseLife  = 3 * time.Second
	pulseEvery = time.Second // at most
)

// pulse is when this process has last said that it is alive, and whether it
// heard messages then.
type pulse struct {
	sent  time.Time
	hears bool
}

// Beat says that this process is alive, unless it has just said so.
func (r *rows) Beat(ctx context.Context, instance string) error {
	now := &pulse{time.Now(), r.ears.hears.Load()}
	if last := r.pulse.Load(); last != nil && last.hears == now.hears && now.sent.Sub(last.sent) < pulseEvery {
		return nil
	}
	_, err := collect(ctx, r.server, r.server.calls, pgx.RowTo[string], r.sql.beat,
		instance, pulseLife.Microseconds(), now.hears)
	if err == nil {
		r.pulse.Store(now)
	}
	return translate(err)
}

// Dead returns the processes that have not said for some time that they are
// alive, and those whose session that listens is gone.
func (r *rows) Dead(ctx context.Context, instances []string) ([]string, error) {
	dead, err := collect(ctx, r.server, r.server.calls, pgx.RowTo[string], r.sql.dead, instances)
	return dead, translate(err)
}

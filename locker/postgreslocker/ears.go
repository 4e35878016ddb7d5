package postgreslocker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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
	noticeMax = 7900 // bytes; the server takes less than 8000
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
	return r.notify(ctx, []string{channel}, []string{hello})
}

const listenSQL = `SELECT pg_advisory_lock_shared(hashtextextended($1::text, $2::bigint)),
set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
set_config('tcp_keepalives_count', '3', false)`

// notify does not wait for the disk.
func (r *rows) notify(ctx context.Context, channels, texts []string) error {
	_, err := collect(ctx, r.server, r.server.calls, pgx.RowTo[string], tellSQL, channels, texts)
	return err
}

const tellSQL = `SELECT set_config('synchronous_commit', 'off', true) FROM unnest($1::text[], $2::text[]) AS m(c, t),
LATERAL pg_notify(m.c, m.t)`

// noticed returns what a message tells. That of a row is "r KEY VERSION WRITTEN
// VALUE TICKET ...", and that of a ticket is "t KEY VERSION WRITTEN
// NAME/VALUE". Keys and values are in base64. A value that is too long is left
// out.
func noticed(text string) (row rowlocker.Row, ok bool) {
	f := strings.Split(text, " ")
	if len(f) < 4 {
		return row, false
	}
	key, _ := base64.StdEncoding.DecodeString(f[1])
	row.Key = string(key)
	if f[0] == "t" {
		row.Tickets = ticketsOf([]string{f[2] + "/" + f[len(f)-1]})
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

// newsOf is the message of a row: VERSION and WRITTEN stand between.
func newsOf(row *rowlocker.Row) (head, tail string) {
	head, tail = "r "+encoded([]byte(row.Key)), " "+encoded(row.Value)
	if len(head)+len(tail) > noticeMax {
		tail = ""
	}
	return head, tail
}

// newsOfTicket is newsOf for a ticket.
func newsOfTicket(j *rowlocker.Join) (head, tail string) {
	return "t " + encoded([]byte(j.Key)), " " + ticketOf(j)
}

// tell sends the messages of the changes that were done, if they have waited
// for the disk. One that gets lost is found by the next look. The changes of
// several rows send none themselves.
func (r *rows) tell(changes []*rowlocker.Change, firm bool) {
	var channels, texts []string
	for _, c := range changes {
		if !c.Done || !firm && isSingle(c) {
			continue
		}
		add := func(to, head, tail string) {
			channels = append(channels, channelOf(to))
			texts = append(texts, fmt.Sprintf("%s %d %d%s", head, c.Version, c.Written, tail))
		}
		if j := c.Join; j != nil && j.To != "" {
			head, tail := newsOfTicket(j)
			add(j.To, head, tail)
		}
		for _, m := range c.Tell {
			head, tail := newsOf(&c.Rows[m.Row])
			for _, t := range c.Current[0].Tickets {
				one := fmt.Sprintf(" %d/%s/%s", t.Version, t.Name, encoded(t.Value))
				if m.Row == 0 && tail != "" && len(head)+len(tail)+len(one) <= noticeMax-2*20 {
					tail += one
				}
			}
			add(m.To, head, tail)
		}
	}
	if len(channels) == 0 {
		return
	}
	r.news.Go(func() { // ends with its one request, and Close waits for that
		ctx, cancel := context.WithTimeout(r.server.wire, tripMax)
		defer cancel()
		_ = r.notify(ctx, channels, texts)
	})
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

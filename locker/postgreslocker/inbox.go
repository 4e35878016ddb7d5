package postgreslocker

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

const (
	pingEvery = time.Second
	deafAfter = 3 * time.Second
)

// channel is what the locker listens to. The server cuts a longer name.
func (l *Locker) channel() string { return "guard:" + l.instance }

// channelNow is the channel, with '-' in front while nobody listens there.
func (l *Locker) channelNow() string {
	if l.hears.Load() {
		return l.channel()
	}
	return "-" + l.channel()
}

// begin begins to listen. It is called within calls of the locker and by its
// goroutines, so before the locker has waited for them.
func (l *Locker) begin() {
	l.mu.Lock()
	start := !l.listening && l.listenAt != nil
	l.listening = l.listening || start
	l.mu.Unlock()
	if start {
		l.own.Go(l.listen)
	}
	if !l.hears.Load() {
		l.ring()
	}
}

// listen keeps the connection that listens.
func (l *Locker) listen() {
	for {
		err := l.hear()
		if l.hears.Swap(false) && l.ctx.Err() == nil {
			l.untold()
			l.waker.WakeAll()
			l.ring()
		}
		wait := 50*time.Millisecond + rand.N(200*time.Millisecond)
		if errors.Is(err, errDeaf) {
			wait = 30 * time.Second // a pooler does not learn to pass messages on
		}
		if !l.pause(wait, l.closing) {
			return
		}
	}
}

var errDeaf = errors.New("the connection hears nothing")

// hear makes a connection and passes on what it hears, until it breaks.
func (l *Locker) hear() error {
	conn, err := connect(l.ctx, l.listenAt)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := l.attend(conn); err != nil {
		return err
	}
	for since := time.Now(); ; {
		ctx, cancel := context.WithTimeout(l.ctx, pingEvery)
		n, err := conn.WaitForNotification(ctx)
		cancel()
		switch {
		case err == nil:
			l.heard(n.Payload, l.channel())
			continue
		case conn.IsClosed() || l.ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		case !l.hears.Load() && time.Since(since) > deafAfter:
			return errDeaf
		}
		if err := l.ping(conn); err != nil {
			return err
		}
	}
}

// ping asks whether the server is there and takes writes. An old primary that
// lives on hears no message of the new one.
func (l *Locker) ping(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, pingEvery)
	defer cancel()
	var readOnly string
	err := conn.QueryRow(ctx, "SHOW transaction_read_only", pgx.QueryExecModeSimpleProtocol).Scan(&readOnly)
	if err == nil && readOnly == "on" {
		l.pool.Reset()
		return errors.New("the server takes no writes")
	}
	return err
}

// attend makes conn listen, and says hello from another connection. The lock
// tells others that somebody listens. It is shared, because the session of a
// connection that was cut off may have it still. The server ends such a session
// when its probes stay without answers. Behind a pooler the hello does not come.
func (l *Locker) attend(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, listenSQL, pgx.QueryExecModeExec, l.channel(), int64(seed)); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel()}.Sanitize()); err != nil {
		return err
	}
	return l.aside(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_notify($1::text, 'hello')", l.channel())
		return err
	})
}

const listenSQL = `SELECT pg_advisory_lock_shared(hashtextextended($1::text, $2::bigint)),
set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
set_config('tcp_keepalives_count', '3', false)`

// heard passes a message on: "g KEY OWNER TOKEN WAITING OFFER", "w KEY",
// "r KEY OWNER", "k KEY OWNER" or "hello". Keys are in hexadecimal. channel is the one that the
// key's row names.
func (l *Locker) heard(text, channel string) {
	f := strings.Fields(text)
	if len(f) == 1 && f[0] == "hello" {
		if !l.hears.Swap(true) {
			l.waker.WakeAll() // each claim that waits says by its next look that it hears
		}
		return
	}
	if len(f) < 2 {
		return
	}
	raw, err := hex.DecodeString(f[1])
	if err != nil {
		return
	}
	key := string(raw)
	switch {
	case f[0] == "g" && len(f) == 6:
		token, _ := strconv.ParseUint(f[3], 10, 64)
		behind, _ := strconv.Atoi(f[4])
		offer, _ := strconv.ParseInt(f[5], 10, 64)
		l.granted(key, f[2], channel, locker.Offer{Length: microseconds(offer), Token: token, Waiting: behind})
	case f[0] == "w":
		l.waker.Wanted(key)
	case f[0] == "r" && len(f) == 3:
		if r, ok := l.waker.(locker.Revoker); ok {
			r.Revoked(key, f[2])
		}
	case f[0] == "k" && len(f) == 3:
		l.kept(key, f[2])
	}
}

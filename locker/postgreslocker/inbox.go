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

// remember keeps c among the claims that wait here.
func (l *Locker) remember(c *locker.Claim) {
	l.mu.Lock()
	l.queued[c.Owner] = c
	l.mu.Unlock()
	l.begin()
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

// owned is a key that a claim of this process owns.
type owned struct {
	key string
	// told says that the row names a channel that was heard when a request last
	// wrote it, and ever since. A message then tells of claims that wait.
	told bool
}

// owns keeps an owner. channel is the one in its row.
func (l *Locker) owns(key, owner, channel string) {
	l.mu.Lock()
	told := l.tells(channel)
	delete(l.queued, owner)
	l.owned[owner] = owned{key, told}
	l.mu.Unlock()
	l.begin()
	if !told {
		l.ring()
	}
}

// renewed notes that a request has put channel into the rows of owners.
func (l *Locker) renewed(owners map[string]bool, channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner := range owners {
		if o, ok := l.owned[owner]; ok {
			o.told = l.tells(channel)
			l.owned[owner] = o
		}
	}
}

// tells reports whether a message to the channel of a row is heard. The caller
// has l.mu, so that untold comes later if hears changes.
func (l *Locker) tells(channel string) bool { return channel == l.channel() && l.hears.Load() }

// untold notes that messages about the owners here may get lost.
func (l *Locker) untold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner, o := range l.owned {
		o.told = false
		l.owned[owner] = o
	}
}

func (l *Locker) forget(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.queued, owner)
	delete(l.owned, owner)
}

// granted tells the guard, and gives back a key that nobody here wants (law 3).
func (l *Locker) granted(key, owner, channel string, o locker.Offer) {
	l.owns(key, owner, channel)
	if !l.waker.Granted(key, owner, o) {
		l.abandon(ending{key: key, owner: owner}, false)
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

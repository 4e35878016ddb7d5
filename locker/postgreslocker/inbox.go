package postgreslocker

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const (
	pingEvery = time.Second
	deafAfter = 3 * time.Second
	pollEvery = 20 * time.Millisecond
	pollShare = 4 // the pause is that many times as long as the look before
)

// inbox tells the guard what the server says of its claims. An inbox listens,
// polls for what no message would tell of, and is safe for concurrent use.
type inbox struct {
	life      *lockerkit.Life
	server    *server
	book      *book
	waker     locker.Waker            // set by Open
	giveBack  func(key, owner string) // releases a key that nobody here wants (law 3)
	listenAt  *pgxpool.Config         // of the connection that listens; nil: it polls only
	listening atomic.Bool             // the goroutine that listens was started
}

// begin begins to listen.
func (in *inbox) begin() {
	if in.listenAt != nil && in.listening.CompareAndSwap(false, true) {
		in.life.Serve(in.listen)
	}
}

// listen keeps the connection that listens.
func (in *inbox) listen() {
	for {
		err := in.hear()
		if in.book.hears.Swap(false) && in.life.Context().Err() == nil {
			in.book.untold()
			in.waker.WakeAll()
			in.book.bell.Ring()
		}
		wait := 50*time.Millisecond + rand.N(200*time.Millisecond)
		if errors.Is(err, errDeaf) {
			wait = 30 * time.Second // a pooler does not learn to pass messages on
		}
		if !lockerkit.Pause(wait, in.life.Closing()) {
			return
		}
	}
}

var errDeaf = errors.New("the connection hears nothing")

// hear makes a connection and passes on what it hears, until it breaks.
func (in *inbox) hear() error {
	conn, err := connect(in.life.Context(), in.listenAt)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(in.life.Context()), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := in.attend(conn); err != nil {
		return err
	}
	for since := time.Now(); ; {
		ctx, cancel := context.WithTimeout(in.life.Context(), pingEvery)
		n, err := conn.WaitForNotification(ctx)
		cancel()
		switch {
		case err == nil:
			in.heard(n.Payload, in.book.channel)
			continue
		case conn.IsClosed() || in.life.Context().Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		case !in.book.hears.Load() && time.Since(since) > deafAfter:
			return errDeaf
		}
		if err := in.ping(conn); err != nil {
			return err
		}
	}
}

// ping asks whether the server is there and takes writes. An old primary that
// lives on hears no message of the new one.
func (in *inbox) ping(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(in.life.Context(), pingEvery)
	defer cancel()
	var readOnly string
	err := conn.QueryRow(ctx, "SHOW transaction_read_only", pgx.QueryExecModeSimpleProtocol).Scan(&readOnly)
	if err == nil && readOnly == "on" {
		in.server.pool.Reset()
		return errors.New("the server takes no writes")
	}
	return err
}

// attend makes conn listen, and says hello from another connection. The lock
// tells others that somebody listens. The lock is shared, because the session
// of a connection that was cut off may have it still. The server ends such a
// session when its probes stay without answers. Behind a pooler the hello does
// not come.
func (in *inbox) attend(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(in.life.Context(), 5*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, listenSQL, pgx.QueryExecModeExec, in.book.channel, int64(seed)); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{in.book.channel}.Sanitize()); err != nil {
		return err
	}
	return in.server.aside(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_notify($1::text, 'hello')", in.book.channel)
		return err
	})
}

const listenSQL = `SELECT pg_advisory_lock_shared(hashtextextended($1::text, $2::bigint)),
set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
set_config('tcp_keepalives_count', '3', false)`

// heard passes a message on: "g KEY OWNER TOKEN WAITING OFFER", "w KEY",
// "r KEY OWNER", "k KEY OWNER" or "hello". Keys are in hexadecimal. channel is the one that the
// key's row names.
func (in *inbox) heard(text, channel string) {
	f := strings.Fields(text)
	if len(f) == 1 && f[0] == "hello" {
		if !in.book.hears.Swap(true) {
			in.waker.WakeAll() // each claim that waits says by its next look that it hears
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
		in.granted(key, f[2], channel, locker.Offer{Length: microseconds(offer), Token: token, Waiting: behind})
	case f[0] == "w":
		in.waker.Wanted(key)
	case f[0] == "r" && len(f) == 3:
		if r, ok := in.waker.(locker.Revoker); ok {
			r.Revoked(key, f[2])
		}
	case f[0] == "k" && len(f) == 3:
		in.recorded(key, f[2])
	}
}

// granted tells the guard, and gives back a key that nobody here wants (law 3).
func (in *inbox) granted(key, owner, channel string, o locker.Offer) {
	in.book.granted(key, owner, channel)
	if !in.waker.Granted(key, owner, o) {
		in.giveBack(key, owner)
	}
}

// wanted tells the guard once that others wait for the key of owner.
func (in *inbox) wanted(key, owner string) {
	if in.book.wanted(owner) {
		in.waker.Wanted(key)
	}
}

// recorded tells the guard that owner, a claim that waited, will find a record.
// The guard does not abandon a claim that has left its queue.
func (in *inbox) recorded(key, owner string) {
	in.book.forget(owner)
	if j, ok := in.waker.(locker.Joiner); ok {
		j.Recorded(key, owner, "")
	}
}

// poll looks for what no message would tell of, while there is such a thing.
func (in *inbox) poll() {
	pause := func(took time.Duration) time.Duration { return max(pollEvery, pollShare*took)/2 + rand.N(pollEvery) }
	in.book.bell.Look(in.life.Context().Done(), pause, func() bool {
		keys, owners := in.book.watched()
		if len(keys) > 0 {
			in.look(keys, owners)
		}
		return len(keys) > 0
	})
}

// seen is a key that this process owns, or that has a record.
type seen struct {
	key     []byte
	owner   string
	channel string
	token   int64
	waiting int32 // -1: there is a record
}

// look tells the guard which claims own their keys now, and for which keys of
// this process others wait.
func (in *inbox) look(keys [][]byte, owners []string) {
	ctx, cancel := context.WithTimeout(in.life.Context(), time.Second)
	defer cancel()
	var all []seen
	err := in.server.aside(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, in.server.sql.poll, keys, owners)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (s seen, err error) {
			return s, r.Scan(&s.key, &s.owner, &s.channel, &s.token, &s.waiting)
		})
		return err
	})
	if err != nil {
		return
	}
	for _, s := range all {
		c := in.book.claim(s.owner)
		if s.waiting < 0 {
			if c != nil && c.Recall {
				in.recorded(c.Key, c.Owner)
			}
		} else if c != nil { // how long the offer is, this does not tell
			in.granted(string(s.key), s.owner, s.channel,
				locker.Offer{Token: tokenOf(c, s.token), Waiting: int(s.waiting)})
		} else if s.waiting > 0 {
			in.wanted(string(s.key), s.owner)
		}
	}
}

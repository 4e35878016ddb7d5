package redisconn

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

// ofFailover takes from o how to reach sentinels and servers, and to log in.
func ofFailover(o *redis.FailoverOptions) redis.UniversalOptions {
	dial := 2 * dialLimit // it asks a sentinel for the server first, on a connection that it may have to open
	if o.DialTimeout > 0 {
		dial = min(o.DialTimeout, dial)
	}
	return redis.UniversalOptions{
		Addrs: o.SentinelAddrs, MasterName: o.MasterName, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		DialTimeout: dial, ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime,
		Username: o.Username, Password: o.Password, DB: o.DB, ClientName: o.ClientName,
		CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
	}
}

// patientPool is the pool size of a Sentinel client. After as many failed dials
// in a row, go-redis tries only once a second. The outage of a failover must
// not reach that number. The connections are bounded by the requests that the
// locker sends at once.
const patientPool = 8192

// primaryTracker is a hook that records the address of the primary of a
// Sentinel client.
type primaryTracker struct {
	dialsOnly

	sentinels *sentinels // of WithSentinel; they elect the primary; nil: it is where the newest connection leads
	at        atomic.Pointer[primary]
}

// primary is a server that was noted as the primary.
type primary struct {
	addr  string
	since time.Time // when it was noted
	// free is when the other processes have left the primary before it. It is
	// zero if there was none.
	free time.Time
}

// settle is how long after an election nothing is sent to the new primary. Each
// process asks the sentinels in its own time, several times a second. Until all
// have asked, some still use the old primary, which takes writes for seconds.
const settle = 300 * time.Millisecond

// errSettling is no timeout, because the server is not asked.
var errSettling = errors.New("the primary was elected just now, and is not used before others have left the old one")

// settled waits until a newly elected primary may be used, or until ctx ends.
func (w *primaryTracker) settled(ctx context.Context) error {
	now := w.at.Load()
	switch {
	case now == nil, lockerkit.Pause(time.Until(now.free), ctx.Done()):
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errSettling
	}
	return ctx.Err()
}

// note records the result of an election, or of a dial, that began at the given
// time. It leaves a primary that was noted since.
func (w *primaryTracker) note(addr string, began time.Time) {
	was, now := w.at.Load(), time.Now()
	switch {
	case addr == "" || was != nil && (addr == was.addr || began.Before(was.since)):
	case was == nil:
		w.at.CompareAndSwap(nil, &primary{addr: addr, since: now})
	default:
		w.at.CompareAndSwap(was, &primary{addr, now, now.Add(settle)})
	}
}

// look lets the sentinels elect the primary again. Connections to another
// server are not used from then on.
func (w *primaryTracker) look(ctx context.Context) {
	if w.sentinels != nil {
		began := time.Now()
		addr, _ := w.sentinels.elect(ctx, w.sentinels.logins.trip.Patience(voteLimit))
		w.note(addr, began)
	}
}

// DialHook is called by go-redis, like the other hooks.
func (w *primaryTracker) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		var conn net.Conn
		var elected string
		var err error
		began := time.Now()
		if w.sentinels == nil {
			conn, err = next(ctx, network, addr)
		} else {
			conn, elected, err = w.sentinels.primary(ctx, network, func(ctx context.Context) (net.Conn, error) {
				return next(ctx, network, addr)
			})
		}
		switch {
		case errors.Is(err, redis.Nil):
			return nil, noPrimaryError{}
		case err != nil:
			return nil, err
		case w.sentinels == nil:
			w.note(conn.RemoteAddr().String(), began)
			return conn, nil
		}
		w.note(elected, began)
		if err := w.settled(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return w.bind(conn, cmp.Or(elected, conn.RemoteAddr().String())), nil
	}
}

// electedConn is a connection that refuses to write once the sentinels have
// elected another server. go-redis may keep such a connection: it has not heard
// of the failover yet, or it had not noted the connection when it heard.
type electedConn struct {
	net.Conn

	to    string
	since time.Time
	w     *primaryTracker
}

// left reports whether another server has been elected since c was bound, even
// if the one of c has been elected again.
func (c *electedConn) left() bool {
	now := c.w.at.Load()
	return now != nil && (now.addr != c.to || c.since.Before(now.free))
}

func (c *electedConn) Write(b []byte) (int, error) {
	if c.left() {
		return 0, errLeft
	}
	return c.Conn.Write(b)
}

func (w *primaryTracker) bind(conn net.Conn, to string) *electedConn {
	return &electedConn{conn, to, time.Now(), w}
}

// NetConn returns the connection itself, as that of package tls does.
func (c *electedConn) NetConn() net.Conn { return c.Conn }

// noPrimaryError is the sentinels' answer to a name that they do not know.
// go-redis has redis.Nil for it. That would look like the server's answer to
// the request: somebody else holds the key.
type noPrimaryError struct{}

func (noPrimaryError) Error() string {
	return "the sentinels know no primary of that name: see MasterName in the options of the client"
}

// RedisError makes it an answer and not a failure of the network.
func (noPrimaryError) RedisError() {}

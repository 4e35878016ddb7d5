package redislocker

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// WithSentinel gives the locker a client of its own for Sentinel. It hears of
// every failover (+switch-master), and goes to the server that most sentinels
// call the primary, of those that answer: one of them may be seconds behind the
// others, and the server that it names may still take writes. While a lease was
// released within its TTL, it asks them several times a second, and sends
// nothing more over connections to another server. So name all sentinels in o,
// three or more.
//
// o is what the caller's client was made of: from there the locker takes how to
// reach and authenticate with sentinels and servers. The client given to [New]
// is not used then, and may be nil.
//
// Without this option a client made by redis.NewFailoverClient works too, but
// does not tell others of a failover: the locker then leaves its connections
// every 3 s.
func WithSentinel(o *redis.FailoverOptions) Option {
	return optionFunc(func(s *settings) { s.sentinel, s.sentinelGiven = o, true })
}

// checkSentinel says what is wrong with the options of WithSentinel.
func (s *settings) checkSentinel() error {
	switch {
	case s.sentinel == nil:
		return invalid("the options of WithSentinel are nil")
	case s.sentinel.MasterName == "":
		return invalid("the options of WithSentinel have no MasterName")
	case len(s.sentinel.SentinelAddrs) == 0:
		return invalid("the options of WithSentinel have no SentinelAddrs")
	case s.sentinel.ReplicaOnly:
		return invalid("the options of WithSentinel are ReplicaOnly: leases are kept by the primary")
	}
	return nil
}

// ownFailoverOptions takes from o how to reach sentinels and servers, as
// ownOptions does.
func ownFailoverOptions(o *redis.FailoverOptions) *redis.FailoverOptions {
	dial := dialLimit
	if o.DialTimeout > 0 {
		dial = min(o.DialTimeout, dialLimit)
	}
	return &redis.FailoverOptions{
		MasterName: o.MasterName, SentinelAddrs: o.SentinelAddrs,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		Dialer: o.Dialer, TLSConfig: o.TLSConfig,
		Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext:   o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		DB:                           o.DB, ClientName: o.ClientName,
		ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime,

		MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: ioLimit, WriteTimeout: ioLimit, PoolTimeout: ioLimit,
		DialTimeout: dial, DialerRetries: 1,
		PoolSize: patientPool, MaxIdleConns: poolSize, MaxConcurrentDials: poolSize, Protocol: 2, DisableIdentity: true,
	}
}

// patientPool is the pool of a Sentinel client. After as many failed dials in a
// row, go-redis tries only once a second: the outage of a failover must not get
// there. What the locker sends at once bounds the connections.
const patientPool = 8192

// whereabouts is a hook that notes where the primary is that a Sentinel client
// leads to.
type whereabouts struct {
	sentinels *sentinels // of WithSentinel, who elect it; nil: it is where the newest connection leads
	addr      atomic.Pointer[string]
}

// now returns the server's address; "" before the first connection.
func (w *whereabouts) now() string {
	if addr := w.addr.Load(); addr != nil {
		return *addr
	}
	return ""
}

func (w *whereabouts) note(addr string) {
	if addr != "" && addr != w.now() {
		w.addr.Store(&addr)
	}
}

// look has the sentinels elect the primary again. What leads to another one is
// not used from then on.
func (w *whereabouts) look(ctx context.Context) {
	if w.sentinels != nil {
		addr, _ := w.sentinels.elect(ctx, w.sentinels.trip.patience(voteLimit))
		w.note(addr)
	}
}

// DialHook is asked by go-redis, as the others are.
func (w *whereabouts) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		var conn net.Conn
		var elected string
		var err error
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
			w.note(conn.RemoteAddr().String())
			return conn, nil
		}
		w.note(elected)
		return w.bind(conn, cmp.Or(elected, conn.RemoteAddr().String())), nil
	}
}

// bound is a connection that sends nothing once another server has been elected
// than it leads to: go-redis may keep it, for it has heard nothing yet, or had
// not noted it when it heard.
type bound struct {
	net.Conn

	to string
	w  *whereabouts
}

// left reports whether another server has been elected.
func (c *bound) left() bool {
	now := c.w.now()
	return now != "" && now != c.to
}

func (c *bound) Write(b []byte) (int, error) {
	if c.left() {
		return 0, errLeft
	}
	return c.Conn.Write(b)
}

// boundSocket is bound that go-redis can look at before it uses it.
type boundSocket struct {
	bound

	socket syscall.Conn
}

func (c *boundSocket) SyscallConn() (syscall.RawConn, error) {
	if c.left() {
		return nil, errLeft
	}
	return c.socket.SyscallConn()
}

func (w *whereabouts) bind(conn net.Conn, to string) net.Conn {
	b := bound{conn, to, w}
	if socket, ok := conn.(syscall.Conn); ok {
		return &boundSocket{b, socket}
	}
	return &b
}

// noPrimaryError is what the sentinels answer to a name that they do not know.
// go-redis has redis.Nil for it, which would look like the server's answer to
// the request: that somebody else holds the key.
type noPrimaryError struct{}

func (noPrimaryError) Error() string {
	return "the sentinels know no primary of that name: see MasterName in the options of the client"
}

// RedisError makes it an answer, not a failure of the network.
func (noPrimaryError) RedisError() {}

func (w *whereabouts) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (w *whereabouts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

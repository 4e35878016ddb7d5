package zookeeperlocker

import (
	"io"
	"log"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

func init() { locker.RegisterDSN("zk", fromDSN) }

// errDSN is the error of every wrong address. The error shows no part of the
// address, because a user may have tried to put a password there.
var errDSN = lockerkit.Invalid(store, "the address is wrong: want zk://host:port,host:port or "+
	"zk://host:port,host:port/prefix; a user or TLS needs zookeeperlocker.New with a connection of your own")

// dsnSession is the timeout of the session for queue entries.
const dsnSession = 10 * time.Second

// fromDSN serves [locker.FromDSN]. Open makes the connection, because it has
// goroutines.
func fromDSN(dsn string) (locker.Locker, error) {
	_, rest, _ := strings.Cut(dsn, "://")
	if strings.ContainsAny(rest, "@?#") {
		return nil, errDSN
	}
	list, path, _ := strings.Cut(rest, "/")
	hosts := strings.Split(list, ",")
	for _, host := range hosts {
		if h, port, err := net.SplitHostPort(host); err != nil || h == "" || port == "" {
			return nil, errDSN
		}
	}
	var opts []Option
	if path != "" {
		opts = append(opts, WithPrefix("/"+path))
	}
	l := New(nil, opts...)
	if l.rows.check() != nil {
		return nil, errDSN
	}
	l.rows.dial = func() (*zk.Conn, func(), error) { return connect(hosts, net.DialTimeout) }
	return l, nil
}

// connect returns a connection to one of the hosts, and what ends it with all
// of its goroutines and files.
func connect(hosts []string, dial zk.Dialer) (conn *zk.Conn, end func(), err error) {
	last := lockerkit.LastConn{By: dial}
	conn, events, err := zk.Connect(hosts, dsnSession, zk.WithDialer(last.Dial),
		zk.WithHostProvider(&ring{}), zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithLogInfo(false))
	if err != nil {
		return nil, nil, err
	}
	return conn, func() {
		conn.Close()
		last.Close()
		for range events { // until the client has ended
		}
	}, nil
}

// ring is a [zk.HostProvider] that leaves names to the dialer. The client's own
// looks them up once, and fails if DNS does. The client calls it from one
// goroutine.
type ring struct {
	servers      []string
	next, failed int
}

func (r *ring) Init(servers []string) error {
	r.servers = servers
	return nil
}

func (r *ring) Len() int { return len(r.servers) }

func (r *ring) Connected() { r.failed = 0 }

// Next reports retryStart when all servers were tried since the last success.
func (r *ring) Next() (server string, retryStart bool) {
	server = r.servers[r.next%len(r.servers)]
	r.next++
	r.failed++
	return server, r.failed > 1 && (r.failed-1)%len(r.servers) == 0
}

package libs

import (
	"context"
	"database/sql/driver"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
	"github.com/go-lockguard/guard/locker/mysqllocker"
	_ "github.com/go-lockguard/guard/locker/mysqllocker/mysqldsn" // knows addresses
	"github.com/go-lockguard/guard/locker/natslocker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
	_ "github.com/go-lockguard/guard/locker/sqlitelocker/sqlitedsn" // knows addresses
	"github.com/go-lockguard/guard/locker/zookeeperlocker"
)

// Stores are the topologies of stores other than Redis, which guard alone has.
var Stores = []Topology{Etcd, ZooKeeper, NATS, Postgres, PostgresListen, PostgresPoll, MySQL, SQLite}

// The topologies of other stores. Those of a quorum have three servers.
const (
	Etcd           Topology = "etcd"
	ZooKeeper      Topology = "zookeeper"
	NATS           Topology = "nats" // JetStream
	Postgres       Topology = "postgres"
	PostgresListen Topology = "postgres-listen" // behind pgbouncer in transaction mode, with a connection that listens
	PostgresPoll   Topology = "postgres-poll"   // the same without
	MySQL          Topology = "mysql"           // MariaDB
	SQLite         Topology = "sqlite"          // a file, without a server
)

// Runs reports whether t is the address of a store that runs, as package locker
// knows it. guard alone can go there.
func (t Topology) Runs() bool { return strings.Contains(string(t), ":") }

// session is the timeout of ZooKeeper's sessions. Some faults are longer.
const session = 3 * time.Second

// newOther opens a store other than Redis. end closes its client.
func newOther(s Setup) (l locker.Locker, end func() error, err error) {
	switch s.Topology {
	case Etcd:
		return newEtcd(s)
	case ZooKeeper:
		return newZooKeeper(s)
	case NATS:
		return newNATS(s)
	case MySQL:
		connector, err := s.mysql()
		if err != nil {
			return nil, nil, err
		}
		return mysqllocker.FromConnector(connector), nil, nil
	case Postgres, PostgresListen, PostgresPoll:
		return newPostgres(s)
	}
	l, err = locker.FromDSN(s.Addrs[0])
	return l, nil, err
}

// newZooKeeper ends the client as the locker ends one that it has made.
func newZooKeeper(s Setup) (locker.Locker, func() error, error) {
	last := lockerkit.LastConn{By: func(network, addr string, limit time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		return s.Dial(ctx, network, addr)
	}}
	conn, events, err := zk.Connect(s.Addrs, session,
		zk.WithDialer(last.Dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, nil, err
	}
	return zookeeperlocker.New(conn), func() error {
		conn.Close()
		last.Close()
		for range events { // until the client has ended
		}
		return nil
	}, nil
}

// newEtcd has each process prefer another member.
func newEtcd(s Setup) (locker.Locker, func() error, error) {
	var clients []*clientv3.Client
	end := func() (err error) {
		for _, c := range clients {
			err = c.Close()
		}
		return err
	}
	for _, addr := range s.Addrs {
		config := etcdtest.Config(addr)
		config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(
			func(ctx context.Context, addr string) (net.Conn, error) { return s.Dial(ctx, "tcp", addr) }))
		c, err := clientv3.New(config)
		if err != nil {
			_ = end()
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	first := os.Getpid() % len(clients)
	others := append(clients[:first:first], clients[first+1:]...)
	return etcdlocker.New(clients[first], etcdlocker.WithMembers(others...)), end, nil
}

// Bucket is that of the topology NATS.
const Bucket = "guard"

// newNATS has each process prefer another server.
func newNATS(s Setup) (locker.Locker, func() error, error) {
	n := os.Getpid() % len(s.Addrs)
	var urls []string
	for _, addr := range append(s.Addrs[n:len(s.Addrs):len(s.Addrs)], s.Addrs[:n]...) {
		urls = append(urls, "nats://"+addr)
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.DontRandomize(), nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.PingInterval(2*time.Second), nats.SetCustomDialer(natsDialer(s.Dial)))
	if err != nil {
		return nil, nil, err
	}
	return natslocker.New(nc, Bucket), func() error { nc.Close(); return nil }, nil
}

// natsDialer is a dialer of package nats, which knows no ctx.
type natsDialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Dial implements [nats.CustomDialer].
func (d natsDialer) Dial(network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return d(ctx, network, addr)
}

// newPostgres opens the store at the first address. The second is that of the
// server behind a pooler.
func newPostgres(s Setup) (locker.Locker, func() error, error) {
	config, err := pgxpool.ParseConfig(s.Addrs[0])
	if err != nil {
		return nil, nil, err
	}
	config.ConnConfig.DialFunc = s.Dial
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, nil, err
	}
	var opts []postgreslocker.Option
	if s.Topology != Postgres {
		opts = append(opts, postgreslocker.WithPooler())
	}
	if s.Topology == PostgresListen {
		opts = append(opts, postgreslocker.WithListen(s.Addrs[1]))
	}
	return postgreslocker.New(pool, opts...), func() error { pool.Close(); return nil }, nil
}

// mysql is the connector of mysqldsn, with the dialer of s.
func (s *Setup) mysql() (driver.Connector, error) {
	c, err := mysql.ParseDSN(strings.NewReplacer("mysql://", "", "@", "@tcp(", "/guard", ")/guard").Replace(s.Addrs[0]))
	if err != nil {
		return nil, err
	}
	c.DialFunc, c.Logger, c.InterpolateParams = s.Dial, &mysql.NopLogger{}, true
	c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
	return mysql.NewConnector(c)
}

// LimitsOf returns what a store says of its leases.
func LimitsOf(t Topology) locker.Limits {
	switch t {
	case Etcd:
		return etcdlocker.New(nil).Capabilities().Limits
	case ZooKeeper:
		return zookeeperlocker.New(nil).Capabilities().Limits
	case NATS:
		return natslocker.New(nil, Bucket).Capabilities().Limits
	}
	return locker.Limits{}
}

// quiet logs nothing.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

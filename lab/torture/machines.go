package main

import (
	"context"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
	"github.com/go-lockguard/guard/locker/natslocker/natstest"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// machine is a server that can fail.
type machine interface {
	Kill()
	Restart() error
	Stop() error // freezes it
	Cont() error
}

// process is a server of a store other than Redis.
type process interface {
	Kill()
	Pause()
	Resume()
}

// server is a process as a machine.
type server struct {
	process
	restart func() error
	leads   func() bool // of several, it leads the others
}

func (s server) Restart() error { return s.restart() }
func (s server) Stop() error    { s.Pause(); return nil }
func (s server) Cont() error    { s.Resume(); return nil }

// startOther starts the servers of a store other than Redis.
func (w *world) startOther(ctx context.Context, dir string) (err error) {
	switch w.topology {
	case libs.Etcd:
		return w.startEtcd(ctx, dir)
	case libs.ZooKeeper:
		return w.startZooKeeper(ctx, dir)
	case libs.NATS:
		return w.startNATS(ctx, dir)
	case libs.MySQL:
		return w.startSQL(ctx, func() (*sqltest.Server, error) {
			return sqltest.StartMySQL("innodb-flush-log-at-trx-commit=1")
		})
	case libs.SQLite:
		w.addrs = []string{"sqlite:" + filepath.Join(dir, "locks.db")}
		return migrate(ctx, w.addrs[0])
	case libs.Postgres, libs.PostgresListen, libs.PostgresPoll:
		return w.startPostgres(ctx)
	}
	w.addrs = []string{string(w.topology)}
	return migrate(ctx, w.addrs[0])
}

func (w *world) startPostgres(ctx context.Context) error {
	err := w.startSQL(ctx, func() (*sqltest.Server, error) { return sqltest.StartPostgreSQL("fsync=on") })
	if err != nil || w.topology == libs.Postgres {
		return err
	}
	p, err := sqltest.StartPgBouncer(w.behind, "server_login_retry=1")
	if err != nil {
		return err
	}
	w.ending(p.Close)
	w.pooler = server{process: p, restart: p.Restart}
	w.addrs = []string{"postgres://guard@" + p.Addr() + "/postgres?sslmode=disable", w.addrs[0]}
	return nil
}

// startSQL starts a database and makes its tables.
func (w *world) startSQL(ctx context.Context, start func() (*sqltest.Server, error)) error {
	s, err := start()
	if err != nil {
		return err
	}
	w.ending(s.Close)
	w.behind, w.addrs = s, []string{s.URL}
	w.machines = []machine{server{process: s, restart: s.Restart}}
	return migrate(ctx, s.URL)
}

func (w *world) startEtcd(ctx context.Context, dir string) error {
	members, err := etcdtest.NewCluster(ctx, 3, dir, etcdtest.Settings{})
	for _, m := range members {
		w.ending(m.Kill)
		w.addrs = append(w.addrs, m.Addr)
		w.machines = append(w.machines, server{
			m, func() error { return m.Start(ctx) }, func() bool { return leads(m.Addr) },
		})
	}
	return err
}

func (w *world) startZooKeeper(ctx context.Context, dir string) error {
	servers, err := zktest.New(ctx, 3, dir, zktest.Settings{})
	for _, s := range servers {
		w.ending(s.Kill)
		w.addrs = append(w.addrs, s.Addr)
		w.machines = append(w.machines, server{
			s, func() error { return s.Start(ctx) }, func() bool { return s.Leads(ctx) },
		})
	}
	return err
}

func (w *world) startNATS(ctx context.Context, dir string) error {
	servers, err := natstest.New(ctx, 3, dir, natstest.Settings{})
	for _, s := range servers {
		w.ending(s.Kill)
		w.addrs = append(w.addrs, s.Addr)
		w.machines = append(w.machines, server{
			s, func() error { return s.Start(ctx) }, func() bool { return s.Leads(ctx, libs.Bucket) },
		})
	}
	if err != nil {
		return err
	}
	return natstest.Create(ctx, w.addrs[0], natstest.Config(libs.Bucket, 3))
}

// leads reports whether a member of etcd leads.
func leads(addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := clientv3.New(etcdtest.Config(addr))
	if err != nil {
		return false
	}
	defer c.Close()
	s, err := c.Status(ctx, addr)
	return err == nil && s.Leader == s.Header.MemberId
}

// ofOther returns a server by a random number: of several every second time the
// one that leads.
func (w *world) ofOther(n int) machine {
	if len(w.machines) > 1 && n%2 == 0 {
		for _, m := range w.machines {
			if m.(server).leads() {
				return m
			}
		}
	}
	return w.machines[n/2%len(w.machines)]
}

// migrate makes the tables of a store, if it has any.
func migrate(ctx context.Context, dsn string) error {
	l, err := locker.FromDSN(dsn)
	if err != nil {
		return err
	}
	g, err := guard.New(l)
	if err != nil {
		return err
	}
	defer func() { _ = g.Close(ctx) }()
	if m, ok := l.(locker.Migrator); ok {
		return m.Migrate(ctx)
	}
	return nil
}

// listed returns the keys that somebody owns or waits for. The owners have
// ended, so listed waits up to a minute for the end of what the dead have left.
func (w *world) listed(ctx context.Context) (left map[string]int64, err error) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		left = map[string]int64{}
		for k, err := range w.direct.Guard.List(ctx) {
			if err != nil {
				return nil, err
			}
			left[k.Key] = k.Remaining.Milliseconds()
		}
		if len(left) == 0 || time.Now().After(end) {
			return left, nil
		}
	}
}

package main

import (
	"context"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// session is the timeout of sessions.
const session = 10 * time.Second

func startZooKeeper(ctx context.Context, p *place) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	p.ending(func() { _ = os.RemoveAll(dir) })
	servers, err := zktest.New(ctx, 1, dir, zktest.Settings{Sync: true})
	for _, s := range servers {
		p.ending(s.Kill)
	}
	if err != nil {
		return err
	}
	addr := servers[0].Addr
	p.open = func(int) (locker.Locker, func(), error) {
		conn, err := connect(addr)
		if err != nil {
			return nil, nil, err
		}
		return zookeeperlocker.New(conn), conn.Close, nil
	}
	p.rival = &rival{"zk.Lock", func(contest) (process, error) { return useLock(addr) }}
	return nil
}

// connect returns a connection that has a session.
func connect(addr string) (*zk.Conn, error) {
	conn, err := zktest.Dial(session, addr)
	if err != nil {
		return nil, err
	}
	for conn.State() != zk.StateHasSession {
		time.Sleep(time.Millisecond)
	}
	return conn, nil
}

// useLock waits for the lock even after the end of the round, because zk.Lock
// knows no ctx.
func useLock(addr string) (process, error) {
	conn, err := connect(addr)
	if err != nil {
		return process{}, err
	}
	return process{func(_ context.Context, key string, f func(limit int)) error {
		l := zk.NewLock(conn, "/lock/"+key, zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			return err
		}
		f(1)
		return l.Unlock()
	}, conn.Close}, nil
}
